/** Numbers of linux/netfilter/nf_tables.h that more than one codec of the private table needs, and how messages begin. */
import type { AttributeCursor } from '../netlink/attributes.ts'
import type { MessageBatch } from '../netlink/batch.ts'
import { beginNetfilter, netfilterAttributes, NFNL_SUBSYS } from '../netlink/nfnetlink-codec.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import type { IpFamily } from '../values/protocol.ts'

/** enum nf_tables_msg_types */
export const NFT_MSG = {
  NEWTABLE: 0,
  GETTABLE: 1,
  DELTABLE: 2,
  NEWCHAIN: 3,
  GETCHAIN: 4,
  DELCHAIN: 5,
  NEWRULE: 6,
  GETRULE: 7,
  DELRULE: 8,
  NEWSET: 9,
  GETSET: 10,
  DELSET: 11,
  NEWSETELEM: 12,
  GETSETELEM: 13,
  DELSETELEM: 14,
} as const

export type NftMessage = keyof typeof NFT_MSG

/** The first attribute of every message names its table: NFTA_TABLE_NAME, NFTA_SET_TABLE and so on. */
export const NFTA_OF_TABLE = 1
/** An item of a list (NFTA_LIST_ELEM). */
export const NFTA_LIST_ELEM = 1
/** Values of NFTA_DATA_*. */
export const NFTA_DATA_VALUE = 1
export const NFTA_DATA_VERDICT = 2

/** Starts a message about a table, or without a family about those of all families; named in errors as in the header (`NFT_MSG_NEWSET`). */
export function beginNft(
  batch: MessageBatch,
  message: NftMessage,
  flags: number,
  family?: IpFamily | 'inet',
  table?: string,
): void {
  beginNetfilter(batch, NFNL_SUBSYS.NFTABLES, NFT_MSG[message], flags, `NFT_MSG_${message}`, family)
  if (table !== undefined) batch.string(NFTA_OF_TABLE, table)
}

/** The attributes of a received message; `netlink-malformed` when it is another message. */
export function nftAttributes(message: ReceivedMessage, name: NftMessage): AttributeCursor {
  return netfilterAttributes(message, NFNL_SUBSYS.NFTABLES, NFT_MSG[name], `NFT_MSG_${name}`)
}
