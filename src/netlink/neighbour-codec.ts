/**
 * Forwarding entries of devices on the wire (struct ndmsg and NDA_* of linux/neighbour.h). Of a
 * VXLAN device an entry names the host behind which a MAC address is. Written by hand: there is no
 * netlink library for Node.
 */
import { readAddress } from '../values/address.ts'
import type { IpFamily } from '../values/protocol.ts'
import { AttributeCursor } from './attributes.ts'
import type { MessageBatch } from './batch.ts'
import { NLM_F_DUMP, RTM_GETNEIGH, RTM_NEWNEIGH } from './constants.ts'
import { netlinkError } from './errors.ts'
import type { ReceivedMessage } from './message.ts'

/** AF_BRIDGE of linux/socket.h: the tables of devices that forward by MAC address, VXLAN devices among them. */
const AF_BRIDGE = 7
const NDA_DST = 1
const NDMSG_BYTES = 12
/** An entry that a program has written. Others were learned from packets, so anybody may have caused them. */
const NUD_PERMANENT = 0x80
const FAMILY_OF_LENGTH: ReadonlyMap<number, IpFamily> = new Map([
  [4, 'IPv4'],
  [16, 'IPv6'],
])

/** RTM_GETNEIGH of the forwarding entries of all devices. */
export function encodeDumpForwarding(batch: MessageBatch): void {
  const at = batch.begin(RTM_GETNEIGH, NLM_F_DUMP, 'RTM_GETNEIGH').header(NDMSG_BYTES)
  batch.setU8(at, AF_BRIDGE)
  batch.end()
}

/** The host to which an entry that a program has written sends packets; undefined for every other entry. */
export function decodeTunnelPeer(message: ReceivedMessage): string | undefined {
  if (message.type !== RTM_NEWNEIGH)
    throw netlinkError('netlink-malformed', `message type ${message.type} instead of a forwarding entry`)
  const { bytes, view, start, end } = message
  if (end - start < NDMSG_BYTES) throw netlinkError('netlink-malformed', `forwarding entry of ${end - start} bytes`)
  if (view.getUint8(start) !== AF_BRIDGE || (view.getUint16(start + 8, true) & NUD_PERMANENT) === 0) return undefined
  const attributes = new AttributeCursor(bytes, start + NDMSG_BYTES, end, view)
  while (attributes.next()) {
    if (attributes.type !== NDA_DST) continue
    const family = FAMILY_OF_LENGTH.get(attributes.length)
    return family === undefined ? undefined : readAddress(bytes, attributes.offset, family)
  }
  return undefined
}
