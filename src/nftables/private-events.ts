/**
 * Announcements of nf_tables about the private tables: that another socket changed something in
 * one, or removed it. They say when to read, never what is there. The announcements of our own
 * writing are as many as its elements, so those are left out before anything of them is decoded.
 * @impure
 */
import { AnnouncementReader, type LossListener } from '../netlink/announcements.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { netfilterAttributes, netfilterFamily, netfilterMessage, NFNL_SUBSYS } from '../netlink/nfnetlink-codec.ts'
import type { Transport } from '../netlink/transport.ts'
import type { IpFamily } from '../values/protocol.ts'
import { PRIVATE_TABLE } from './types.ts'

// enum nf_tables_msg_types of linux/netfilter/nf_tables.h: those that are announced, each with the table as attribute 1
const NFT_MSG_DELTABLE = 2
const ANNOUNCED: ReadonlySet<number> = new Set([
  0, // NEWTABLE
  NFT_MSG_DELTABLE,
  3, // NEWCHAIN
  5, // DELCHAIN
  6, // NEWRULE
  8, // DELRULE
  9, // NEWSET
  11, // DELSET
  12, // NEWSETELEM
  14, // DELSETELEM
])
/** NFTA_TABLE_NAME, NFTA_CHAIN_TABLE, NFTA_RULE_TABLE, NFTA_SET_TABLE and NFTA_SET_ELEM_LIST_TABLE. */
const NFTA_TABLE = 1

export interface PrivateTableChange {
  readonly family: IpFamily
  /** Whether the table was removed. */
  readonly isLost: boolean
  /** The socket that wrote. */
  readonly portId: number
}

/** Reads an announcement; undefined for one about other tables. */
export function decodePrivateTableChange(message: ReceivedMessage): PrivateTableChange | undefined {
  const number = netfilterMessage(message, NFNL_SUBSYS.NFTABLES)
  const family = netfilterFamily(message)
  if (number === undefined || !ANNOUNCED.has(number) || family === undefined) return undefined
  const attributes = netfilterAttributes(message, NFNL_SUBSYS.NFTABLES, number, 'a change of nf_tables')
  while (attributes.next())
    if (attributes.type === NFTA_TABLE)
      return attributes.string() === PRIVATE_TABLE
        ? { family, isLost: number === NFT_MSG_DELTABLE, portId: message.portId }
        : undefined
  return undefined
}

/**
 * Reads the changes of others, once the caller has started it. It reports one of each family and turn,
 * because a flush is hundreds of announcements.
 * @param transport a socket of NETLINK_NETFILTER that has joined NFNLGRP_NFTABLES
 * @param isOwn whether a port id is that of a socket of ours
 * @param onChange must not throw
 */
export function privateTableEvents(
  transport: Transport,
  isOwn: (portId: number) => boolean,
  onChange: (change: PrivateTableChange) => void,
  losses: LossListener,
): AnnouncementReader {
  const changed = new Map<IpFamily, PrivateTableChange>()
  return new AnnouncementReader(transport, {
    onMessage(message) {
      if (isOwn(message.portId)) return
      const change = decodePrivateTableChange(message)
      if (change === undefined) return
      const isLost = change.isLost || changed.get(change.family)?.isLost === true
      changed.set(change.family, { ...change, isLost })
    },
    onTurnEnd() {
      const changes = [...changed.values()]
      changed.clear()
      for (const change of changes) onChange(change)
    },
    ...losses,
  })
}
