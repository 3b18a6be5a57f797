/**
 * The wire form of nfnetlink, which all parts of netfilter share: the message type is subsystem and
 * message number, and struct nfgenmsg is before the attributes. Written by hand: there is no
 * netlink library for Node.
 */
import { FAMILY_NUMBER, familyOfNumber, type IpFamily } from '../values/protocol.ts'
import { AttributeCursor } from './attributes.ts'
import type { MessageBatch } from './batch.ts'
import { netlinkError } from './errors.ts'
import type { ReceivedMessage } from './message.ts'

/** NFNL_SUBSYS_* of linux/netfilter/nfnetlink.h. */
export const NFNL_SUBSYS = { CTNETLINK: 1, IPSET: 6, ACCT: 7, NFTABLES: 10, NFT_COMPAT: 11 } as const

export type NetfilterSubsystem = (typeof NFNL_SUBSYS)[keyof typeof NFNL_SUBSYS]

/** struct nfgenmsg: family, version (always 0, NFNETLINK_V0), res_id in big endian. */
const NFGENMSG_BYTES = 4
/** linux/netfilter.h: tables of nf_tables for both families. */
const NFPROTO_INET = 1
const NFNL_MSG_BATCH_BEGIN = 0x10
const NFNL_MSG_BATCH_END = 0x11

const typeOf = (subsystem: NetfilterSubsystem, message: number): number => (subsystem << 8) | message

/** Starts a message. Without a family it is NFPROTO_UNSPEC. `operation` names the message in errors. */
export function beginNetfilter(
  batch: MessageBatch,
  subsystem: NetfilterSubsystem,
  message: number,
  flags: number,
  operation: string,
  family?: IpFamily | 'inet',
): void {
  const at = batch.begin(typeOf(subsystem, message), flags, operation).header(NFGENMSG_BYTES)
  if (family !== undefined) batch.setU8(at, family === 'inet' ? NFPROTO_INET : FAMILY_NUMBER[family])
}

/** NFNL_MSG_BATCH_BEGIN: the rest of the datagram is one transaction of this subsystem. */
export function encodeBatchBegin(batch: MessageBatch, subsystem: NetfilterSubsystem): void {
  const at = batch.begin(NFNL_MSG_BATCH_BEGIN, 0, 'NFNL_MSG_BATCH_BEGIN').header(NFGENMSG_BYTES)
  batch.setU8(at + 3, subsystem)
  batch.end()
}

/** NFNL_MSG_BATCH_END: the kernel commits the transaction. */
export function encodeBatchEnd(batch: MessageBatch, subsystem: NetfilterSubsystem): void {
  const at = batch.begin(NFNL_MSG_BATCH_END, 0, 'NFNL_MSG_BATCH_END').header(NFGENMSG_BYTES)
  batch.setU8(at + 3, subsystem)
  batch.endUnacknowledged()
}

/** The attributes of a received message; `netlink-malformed`, which names `operation`, when it is another message. */
export function netfilterAttributes(
  received: ReceivedMessage,
  subsystem: NetfilterSubsystem,
  message: number,
  operation: string,
): AttributeCursor {
  const { bytes, view, start, end, type } = received
  if (type !== typeOf(subsystem, message))
    throw netlinkError('netlink-malformed', `message type ${type} instead of ${operation}`)
  if (end - start < NFGENMSG_BYTES) throw netlinkError('netlink-malformed', `${operation} of ${end - start} bytes`)
  return new AttributeCursor(bytes, start + NFGENMSG_BYTES, end, view)
}

/** The message number of a received message; undefined when it is of another subsystem or too short. */
export function netfilterMessage(
  { type, start, end }: ReceivedMessage,
  subsystem: NetfilterSubsystem,
): number | undefined {
  return type >> 8 === subsystem && end - start >= NFGENMSG_BYTES ? type & 0xff : undefined
}

/** The IP family of a received message; undefined for any other family. */
export function netfilterFamily({ bytes, start }: ReceivedMessage): IpFamily | undefined {
  return familyOfNumber(bytes[start])
}
