/**
 * Announcements of nf_tables (nfnetlink): which table and chain of which family was changed, by whom.
 * What could break: iptables-nft keeps its rules in tables of the families ip and ip6; a table of the family inet that
 * has the same name is another table.
 */
import { AttributeCursor } from '../netlink/attributes.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { FAMILY_NUMBER, IP_FAMILIES, type IpFamily } from '../values/protocol.ts'

/** linux/netfilter/nfnetlink.h: multicast group and subsystem of nf_tables; struct nfgenmsg is 4 bytes. */
export const NFNLGRP_NFTABLES = 7
const NFNL_SUBSYS_NFTABLES = 10
const NFGENMSG_BYTES = 4

/** enum nf_tables_msg_types of linux/netfilter/nf_tables.h */
const NFT_MSG_DELTABLE = 2
const NFT_MSG_NEWCHAIN = 3
const NFT_MSG_DELCHAIN = 5
const NFT_MSG_NEWRULE = 6
const NFT_MSG_DELRULE = 8

/** NFTA_TABLE_NAME, NFTA_CHAIN_TABLE and NFTA_RULE_TABLE are one number; the names of chains are not. */
const NFTA_TABLE = 1
const NFTA_RULE_CHAIN = 2
const NFTA_CHAIN_NAME = 3

export type NftChangeKind = 'table-deleted' | 'chain-made' | 'chain-deleted' | 'rule-added' | 'rule-deleted'

/** One change of nf_tables. */
export interface NftChange {
  readonly kind: NftChangeKind
  readonly family: IpFamily
  readonly table: string
  /** '' when the whole table is meant. */
  readonly chain: string
  /** Port id of the socket that asked for it (nlmsg_pid). */
  readonly portId: number
}

const KINDS: Readonly<Record<number, { readonly kind: NftChangeKind; readonly chainAttribute: number }>> = {
  [NFT_MSG_DELTABLE]: { kind: 'table-deleted', chainAttribute: 0 },
  [NFT_MSG_NEWCHAIN]: { kind: 'chain-made', chainAttribute: NFTA_CHAIN_NAME },
  [NFT_MSG_DELCHAIN]: { kind: 'chain-deleted', chainAttribute: NFTA_CHAIN_NAME },
  [NFT_MSG_NEWRULE]: { kind: 'rule-added', chainAttribute: NFTA_RULE_CHAIN },
  [NFT_MSG_DELRULE]: { kind: 'rule-deleted', chainAttribute: NFTA_RULE_CHAIN },
}

/** Reads an announcement; undefined for one about sets, generations, other families and the like. */
export function decodeNftChange(message: ReceivedMessage): NftChange | undefined {
  const { type, bytes, start, end } = message
  const what = type >> 8 === NFNL_SUBSYS_NFTABLES ? KINDS[type & 0xff] : undefined
  if (what === undefined || end - start < NFGENMSG_BYTES) return undefined
  const family = IP_FAMILIES.find((one) => FAMILY_NUMBER[one] === bytes[start])
  if (family === undefined) return undefined
  let table = ''
  let chain = ''
  const attributes = new AttributeCursor(bytes, start + NFGENMSG_BYTES, end)
  while (attributes.next()) {
    if (attributes.type === NFTA_TABLE) table = attributes.string()
    else if (attributes.type === what.chainAttribute) chain = attributes.string()
  }
  return { kind: what.kind, family, table, chain, portId: message.portId }
}
