/**
 * Changes of nf_tables that may have touched our rules, reported as soon as the kernel announces them. They say when to read the
 * rules, never what is there. `concernsUs` decides how often iptables-save runs on a node where other programs change their own
 * rules all day.
 */
import { AnnouncementReader } from '../netlink/announcements.ts'
import type { Transport } from '../netlink/transport.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { ChainLayout } from './layout.ts'
import { decodeNftChange, type NftChange } from './nft-codec.ts'

export type NftEvent =
  /** Our chains or jumps of this family may have been changed. */
  | { readonly kind: 'changed'; readonly change: NftChange }
  /** Announcements were lost: both families may have changed. */
  | { readonly kind: 'overrun' }
  /** The socket failed and was closed; this is the last event. */
  | { readonly kind: 'failed'; readonly cause: unknown }

/**
 * Whether a change may have touched what is ours: anything in our chains; in a built-in chain that holds a jump of ours,
 * only what takes something away, because where a jump stands does not matter.
 */
export function concernsUs({ kind, table: name, chain }: NftChange, layout: ChainLayout): boolean {
  const table = layout.tables.find((one) => one === name)
  if (table === undefined) return false
  if (kind === 'table-deleted' || layout.owns(table, chain)) return true
  const takesAway = kind === 'rule-deleted' || kind === 'chain-deleted'
  return takesAway && layout.jumps.some((jump) => jump.table === table && jump.from === chain)
}

/**
 * Reads the changes that concern us, once the caller has started it: one event a family and turn, because a flush is
 * hundreds of announcements.
 * @param transport a socket of NETLINK_NETFILTER that has joined NFNLGRP_NFTABLES
 * @param isOwn whether a port id is that of one of our own iptables-restore processes
 * @param listener must not throw
 */
export function nftEvents(
  transport: Transport,
  layout: ChainLayout,
  isOwn: (portId: number) => boolean,
  listener: (event: NftEvent) => void,
): AnnouncementReader {
  const changed = new Map<IpFamily, NftChange>()
  return new AnnouncementReader(transport, {
    onMessage(message) {
      const change = decodeNftChange(message)
      if (change !== undefined && concernsUs(change, layout) && !isOwn(change.portId))
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
