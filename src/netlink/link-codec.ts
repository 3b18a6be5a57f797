/**
 * Network interfaces on the wire (struct ifinfomsg of linux/rtnetlink.h, IFLA_* of
 * linux/if_link.h). Interface names are at most 15 bytes; the kernel refuses longer ones. Written
 * by hand: there is no netlink library for Node.
 */
import { AttributeCursor } from './attributes.ts'
import type { MessageBatch } from './batch.ts'
import { NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, RTM_DELLINK, RTM_GETLINK, RTM_NEWLINK } from './constants.ts'
import { netlinkError } from './errors.ts'
import type { ReceivedMessage } from './message.ts'

const IFLA_IFNAME = 3
const IFLA_MTU = 4
const IFLA_OPERSTATE = 16
const IFLA_LINKINFO = 18
const IFLA_EXT_MASK = 29
const IFLA_INFO_KIND = 1
/** Requests a reply without counters, which is half as long. */
const RTEXT_FILTER_SKIP_STATS = 8
const IFINFOMSG_BYTES = 16
/** IFNAMSIZ without the NUL. */
const MAX_NAME_BYTES = 15

/** IFLA_OPERSTATE (RFC 2863): IF_OPER_* of linux/if.h, in the order of their numbers. */
const OPER_STATES = ['unknown', 'not-present', 'down', 'lower-layer-down', 'testing', 'dormant', 'up'] as const
export type OperState = (typeof OPER_STATES)[number]

/** A network interface. */
export interface Link {
  readonly index: number
  readonly name: string
  /** IFLA_INFO_KIND: `dummy`, `veth`, `bridge` …; '' for hardware and loopback */
  readonly kind: string
  /** IFF_* of linux/if.h */
  readonly flags: number
  /** Bytes; 0 when the kernel does not send it (some events) */
  readonly mtu: number
  readonly operState: OperState
}

/** RTM_NEWLINK that creates a dummy interface; EEXIST when the name is taken. The interface is down. */
export function encodeCreateDummy(batch: MessageBatch, name: string): void {
  beginLink(batch, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, 'RTM_NEWLINK')
  batch.string(IFLA_IFNAME, checkedLinkName(name))
  const nest = batch.nest(IFLA_LINKINFO)
  batch.string(IFLA_INFO_KIND, 'dummy')
  batch.endNest(nest)
  batch.end()
}

/** RTM_DELLINK; ENODEV when no interface has this index. */
export function encodeDeleteLink(batch: MessageBatch, index: number): void {
  const at = beginLink(batch, RTM_DELLINK, 0, 'RTM_DELLINK')
  batch.setU32(at + 4, index)
  batch.end()
}

/** RTM_GETLINK of one interface; ENODEV when none has this name. */
export function encodeGetLink(batch: MessageBatch, name: string): void {
  beginLink(batch, RTM_GETLINK, 0, 'RTM_GETLINK')
  batch.string(IFLA_IFNAME, checkedLinkName(name))
  batch.u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
  batch.end()
}

/** RTM_GETLINK of all interfaces. */
export function encodeDumpLinks(batch: MessageBatch): void {
  beginLink(batch, RTM_GETLINK, NLM_F_DUMP, 'RTM_GETLINK')
  batch.u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
  batch.end()
}

/** Reads RTM_NEWLINK or RTM_DELLINK (an answer or an event). */
export function decodeLink(message: ReceivedMessage): Link {
  if (message.type !== RTM_NEWLINK && message.type !== RTM_DELLINK)
    throw netlinkError('netlink-malformed', `message type ${message.type} instead of a link`)
  const { bytes, view, start, end } = message
  if (end - start < IFINFOMSG_BYTES) throw netlinkError('netlink-malformed', `link message of ${end - start} bytes`)
  const index = view.getInt32(start + 4, true)
  const flags = view.getUint32(start + 8, true)
  let name: string | undefined
  let kind = ''
  let mtu = 0
  let operState: OperState = 'unknown'
  const attributes = new AttributeCursor(bytes, start + IFINFOMSG_BYTES, end, view)
  while (attributes.next()) {
    if (attributes.type === IFLA_IFNAME) name = attributes.string()
    else if (attributes.type === IFLA_MTU) mtu = attributes.u32()
    else if (attributes.type === IFLA_OPERSTATE) operState = OPER_STATES[attributes.u8()] ?? 'unknown'
    else if (attributes.type === IFLA_LINKINFO) {
      const inner = attributes.nested()
      while (inner.next()) if (inner.type === IFLA_INFO_KIND) kind = inner.string()
    }
  }
  if (name === undefined || name === '' || index <= 0)
    throw netlinkError('netlink-malformed', 'link message without a name or an index')
  return { index, name, kind, flags, mtu, operState }
}

/** struct ifinfomsg with family 0: family, type, index at +4, flags at +8, change mask at +12. */
function beginLink(batch: MessageBatch, type: number, flags: number, operation: string): number {
  return batch.begin(type, flags, operation).header(IFINFOMSG_BYTES)
}

function checkedLinkName(name: string): string {
  const length = Buffer.byteLength(name)
  if (length === 0 || length > MAX_NAME_BYTES || name.includes('\0'))
    throw netlinkError(
      'netlink-unencodable',
      `interface name ${JSON.stringify(name)} is not 1 to ${MAX_NAME_BYTES} bytes`,
    )
  return name
}
