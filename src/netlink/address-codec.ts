/**
 * Interface addresses on the wire (struct ifaddrmsg and IFA_* of linux/if_addr.h). IFA_ADDRESS is
 * the peer's address on point-to-point links; the interface's own address is IFA_LOCAL. Written by
 * hand: there is no netlink library for Node.
 */
import { ADDRESS_LENGTH, familyOf, readAddress, writeAddress } from '../values/address.ts'
import { FAMILY_NUMBER, familyOfNumber, type IpFamily } from '../values/protocol.ts'
import { AttributeCursor } from './attributes.ts'
import type { MessageBatch } from './batch.ts'
import { NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, RTM_DELADDR, RTM_GETADDR, RTM_NEWADDR } from './constants.ts'
import { netlinkError } from './errors.ts'
import type { ReceivedMessage } from './message.ts'

const IFA_ADDRESS = 1
const IFA_LOCAL = 2
const IFA_FLAGS = 8
const IFADDRMSG_BYTES = 8

/** IFA_F_NODAD of linux/if_addr.h: no duplicate address detection, usable at once. */
export const IFA_F_NODAD = 0x02

/** RT_SCOPE_UNIVERSE and RT_SCOPE_HOST of linux/rtnetlink.h */
const RT_SCOPE_UNIVERSE = 0
export const RT_SCOPE_HOST = 254

/** An address of an interface. */
export interface InterfaceAddress {
  readonly family: IpFamily
  /** Canonical text */
  readonly address: string
  readonly prefixLength: number
  readonly interfaceIndex: number
  /** RT_SCOPE_* */
  readonly scope: number
  /** IFA_F_*, all 32 bits */
  readonly flags: number
  /** The peer's address (IFA_ADDRESS) where it differs from the own address: the prefix length then belongs to it. */
  readonly peer?: string
}

/** The fields needed to add or delete an address; scope and flags default to 0. */
export type NewInterfaceAddress = Pick<InterfaceAddress, 'address' | 'prefixLength' | 'interfaceIndex'> &
  Partial<Pick<InterfaceAddress, 'scope' | 'flags'>> & { readonly peer?: string | undefined }

/** RTM_NEWADDR; EEXIST when the interface has it, ENODEV when there is no such interface. */
export function encodeAddAddress(batch: MessageBatch, address: NewInterfaceAddress): void {
  beginAddress(batch, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, 'RTM_NEWADDR', address)
  if (address.flags !== undefined && address.flags !== 0) batch.u32(IFA_FLAGS, address.flags)
  batch.end()
}

/** RTM_DELADDR; EADDRNOTAVAIL when the interface does not have it. */
export function encodeDeleteAddress(batch: MessageBatch, address: NewInterfaceAddress): void {
  beginAddress(batch, RTM_DELADDR, 0, 'RTM_DELADDR', address)
  batch.end()
}

/**
 * RTM_GETADDR of both families. The interface index only has an effect on a socket with
 * NETLINK_GET_STRICT_CHK; otherwise the answer has all interfaces.
 */
export function encodeDumpAddresses(batch: MessageBatch, interfaceIndex = 0): void {
  const at = batch.begin(RTM_GETADDR, NLM_F_DUMP, 'RTM_GETADDR').header(IFADDRMSG_BYTES)
  batch.setU32(at + 4, interfaceIndex)
  batch.end()
}

/**
 * Reads RTM_NEWADDR or RTM_DELADDR (a dump's line or an event); undefined for a family that is
 * neither IPv4 nor IPv6.
 */
export function decodeAddress(message: ReceivedMessage): InterfaceAddress | undefined {
  if (message.type !== RTM_NEWADDR && message.type !== RTM_DELADDR)
    throw netlinkError('netlink-malformed', `message type ${message.type} instead of an address`)
  const { bytes, view, start, end } = message
  if (end - start < IFADDRMSG_BYTES) throw netlinkError('netlink-malformed', `address message of ${end - start} bytes`)
  const family = familyOfNumber(view.getUint8(start))
  if (family === undefined) return undefined
  const prefixLength = view.getUint8(start + 1)
  let flags = view.getUint8(start + 2)
  const scope = view.getUint8(start + 3)
  const interfaceIndex = view.getUint32(start + 4, true)
  const length = ADDRESS_LENGTH[family]
  let localAt = -1
  let peerAt = -1
  const attributes = new AttributeCursor(bytes, start + IFADDRMSG_BYTES, end, view)
  while (attributes.next()) {
    if (attributes.type === IFA_LOCAL) {
      attributes.expect(length)
      localAt = attributes.offset
    } else if (attributes.type === IFA_ADDRESS) {
      attributes.expect(length)
      peerAt = attributes.offset
    } else if (attributes.type === IFA_FLAGS) flags = attributes.u32()
  }
  const at = localAt >= 0 ? localAt : peerAt
  if (at < 0 || prefixLength > length * 8 || interfaceIndex === 0)
    throw netlinkError('netlink-malformed', 'address message that lacks a field')
  const address = readAddress(bytes, at, family)
  const peer = peerAt < 0 ? address : readAddress(bytes, peerAt, family)
  const common = { family, address, prefixLength, interfaceIndex, scope, flags }
  return peer === address ? common : { ...common, peer }
}

/**
 * struct ifaddrmsg: family, prefix length, 8 flags, scope, index at +4; then the address, and its
 * peer or the address again.
 */
function beginAddress(
  batch: MessageBatch,
  type: number,
  flags: number,
  operation: string,
  address: NewInterfaceAddress,
): void {
  const family = familyOf(address.address)
  const length = ADDRESS_LENGTH[family]
  const at = batch.begin(type, flags, operation).header(IFADDRMSG_BYTES)
  batch.setU8(at, FAMILY_NUMBER[family])
  batch.setU8(at + 1, address.prefixLength)
  batch.setU8(at + 3, address.scope ?? RT_SCOPE_UNIVERSE)
  batch.setU32(at + 4, address.interfaceIndex)
  batch.written(IFA_LOCAL, length, writeAddress, address.address)
  batch.written(IFA_ADDRESS, length, writeAddress, address.peer ?? address.address)
}
