/**
 * Announcements of nf_tables (nfnetlink) about changes that may have touched our rules. They say when to read the rules, never
 * what is there. iptables-nft keeps its rules in tables of the families ip and ip6; a table of the family inet with the same
 * name is another table. Decoded by hand, as all of netlink: there is no library for Node.
 * @impure
 */
import { AnnouncementReader } from '../netlink/announcements.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { netfilterAttributes, netfilterFamily, netfilterMessage, NFNL_SUBSYS } from '../netlink/nfnetlink-codec.ts'
import type { Transport } from '../netlink/transport.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { ChainLayout } from './layout.ts'
import type { TableId } from './types.ts'

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

export type NftChangeKind = 'table-deleted' | 'chain-added' | 'chain-deleted' | 'rule-added' | 'rule-deleted'

/** One change of nf_tables. */
export interface NftChange {
  readonly kind: NftChangeKind
  readonly family: IpFamily
  readonly table: string
  /** '' for the whole table. */
  readonly chain: string
  /** Port id of the socket that made the change (nlmsg_pid). */
  readonly portId: number
}

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

export type NftEvent =
  /** Our chains or jumps of this family may have changed. */
  | { readonly kind: 'changed'; readonly change: NftChange }
  /** Announcements were lost: both families may have changed. */
  | { readonly kind: 'overrun' }
  /** The socket failed and was closed; this is the last event. */
  | { readonly kind: 'failed'; readonly cause: unknown }

/** Whether a rule that is added to this chain of others may take packets before our rules do. */
export type WatchesAdditions = (family: IpFamily, table: TableId, chain: string) => boolean

/**
 * Whether a change may have touched our rules: any change in our chains; in a built-in chain with a jump of ours a deletion, and an
 * addition only where the place of the jump matters. It decides how often iptables-save runs on a node where other programs change
 * their own rules all day.
 */
export function concernsUs(
  { kind, table: name, chain, family }: NftChange,
  layout: ChainLayout,
  watches: WatchesAdditions = () => false,
): boolean {
  const table = layout.tables.find((one) => one === name)
  if (table === undefined) return false
  if (kind === 'table-deleted' || layout.owns(table, chain)) return true
  if (kind === 'rule-added') return watches(family, table, chain)
  const takesAway = kind === 'rule-deleted' || kind === 'chain-deleted'
  return takesAway && layout.jumps.some((jump) => jump.table === table && jump.from === chain)
}

/**
 * Reads the changes that concern us, once the caller has started it. It makes one event for each family and turn, because a
 * flush is hundreds of announcements.
 * @param transport a socket of NETLINK_NETFILTER that has joined NFNLGRP_NFTABLES
 * @param isOwn whether a port id is that of one of our own iptables-restore processes
 * @param listener must not throw
 */
export function nftEvents(
  transport: Transport,
  layout: ChainLayout,
  isOwn: (portId: number) => boolean,
  listener: (event: NftEvent) => void,
  watches: WatchesAdditions = () => false,
): AnnouncementReader {
  const changed = new Map<IpFamily, NftChange>()
  return new AnnouncementReader(transport, {
    onMessage(message) {
      const change = decodeNftChange(message)
      if (change !== undefined && concernsUs(change, layout, watches) && !isOwn(change.portId))
        changed.set(change.family, change)
    },
    onTurnEnd() {
      const changes = [...changed.values()]
      changed.clear()
      for (const change of changes) listener({ kind: 'changed', change })
    },
    onOverrun: () => listener({ kind: 'overrun' }),
    onFailure: (cause) => listener({ kind: 'failed', cause }),
  })
}
