/**
 * Announcements of nf_tables (nfnetlink) about changes in tables of the families ip and ip6. They
 * say when to read the rules, never what is there. Decoded by hand, as all of netlink: there is no
 * library for Node.
 * @impure
 */
import { AnnouncementReader, type LossListener } from '../netlink/announcements.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { netfilterAttributes, netfilterFamily, netfilterMessage, NFNL_SUBSYS } from '../netlink/nfnetlink-codec.ts'
import type { Transport } from '../netlink/transport.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { NftChange, NftChangeKind } from './rule.ts'

/** Multicast group of nf_tables (linux/netfilter/nfnetlink.h). */
export const NFNLGRP_NFTABLES = 7

/** enum nf_tables_msg_types of linux/netfilter/nf_tables.h */
const NFT_MSG_DELTABLE = 2
const NFT_MSG_NEWCHAIN = 3
const NFT_MSG_DELCHAIN = 5
const NFT_MSG_NEWRULE = 6
const NFT_MSG_DELRULE = 8

/** NFTA_TABLE_NAME, NFTA_CHAIN_TABLE and NFTA_RULE_TABLE have the same number; those of the chain attributes differ. */
const NFTA_TABLE = 1
const NFTA_RULE_CHAIN = 2
const NFTA_CHAIN_NAME = 3

const KINDS: Readonly<Record<number, { readonly kind: NftChangeKind; readonly chainAttribute: number }>> = {
  [NFT_MSG_DELTABLE]: { kind: 'table-deleted', chainAttribute: 0 },
  [NFT_MSG_NEWCHAIN]: { kind: 'chain-added', chainAttribute: NFTA_CHAIN_NAME },
  [NFT_MSG_DELCHAIN]: { kind: 'chain-deleted', chainAttribute: NFTA_CHAIN_NAME },
  [NFT_MSG_NEWRULE]: { kind: 'rule-added', chainAttribute: NFTA_RULE_CHAIN },
  [NFT_MSG_DELRULE]: { kind: 'rule-deleted', chainAttribute: NFTA_RULE_CHAIN },
}

/** Reads an announcement; undefined for one about sets, generations, other families and the like. */
export function decodeNftChange(message: ReceivedMessage): NftChange | undefined {
  const number = netfilterMessage(message, NFNL_SUBSYS.NFTABLES)
  const what = number === undefined ? undefined : KINDS[number]
  const family = netfilterFamily(message)
  if (number === undefined || what === undefined || family === undefined) return undefined
  let table = ''
  let chain = ''
  const attributes = netfilterAttributes(message, NFNL_SUBSYS.NFTABLES, number, what.kind)
  while (attributes.next()) {
    if (attributes.type === NFTA_TABLE) table = attributes.string()
    else if (attributes.type === what.chainAttribute) chain = attributes.string()
  }
  return { kind: what.kind, family, table, chain, portId: message.portId }
}

/**
 * Reads the changes that concern us, once the caller has started it. It reports the last one of
 * each family and turn, because a flush is hundreds of announcements.
 * @param transport a socket of NETLINK_NETFILTER that has joined NFNLGRP_NFTABLES
 * @param onChange must not throw
 */
export function nftEvents(
  transport: Transport,
  concernsUs: (change: NftChange) => boolean,
  onChange: (change: NftChange) => void,
  losses: LossListener,
): AnnouncementReader {
  const changed = new Map<IpFamily, NftChange>()
  return new AnnouncementReader(transport, {
    onMessage(message) {
      const change = decodeNftChange(message)
      if (change !== undefined && concernsUs(change)) changed.set(change.family, change)
    },
    onTurnEnd() {
      const changes = [...changed.values()]
      changed.clear()
      for (const change of changes) onChange(change)
    },
    ...losses,
  })
}
