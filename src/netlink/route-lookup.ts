/**
 * One question to the routing of the kernel on the wire (RTM_GETROUTE without NLM_F_DUMP): how it
 * would route a packet. Answers are cached entries (RTM_F_CLONED), which lists of routes leave out.
 * Written by hand: there is no netlink library for Node.
 */
import { ADDRESS_LENGTH, familyOf, readAddress, writeAddress } from '../values/address.ts'
import { FAMILY_NUMBER, familyOfNumber } from '../values/protocol.ts'
import { AttributeCursor } from './attributes.ts'
import type { MessageBatch } from './batch.ts'
import { RTM_GETROUTE, RTM_NEWROUTE } from './constants.ts'
import { netlinkError } from './errors.ts'
import type { ReceivedMessage } from './message.ts'

const RTA_DST = 1
const RTA_SRC = 2
const RTA_IIF = 3
const RTA_OIF = 4
const RTA_GATEWAY = 5
const RTA_PREFSRC = 7
const RTA_MARK = 16
const RTA_VIA = 18
const RTMSG_BYTES = 12
const VIA_FAMILY_BYTES = 2

export interface RouteLookup {
  /** Canonical addresses of one family. Without a source the kernel chooses one. */
  readonly destination: string
  readonly source?: string | undefined
  /** The interface at which the packet arrives; absent for a packet of this node. */
  readonly inInterfaceIndex?: number | undefined
  /** The packet's mark, which rules of the routing may look at. */
  readonly mark?: number
}

export interface FoundRoute {
  /** RTN_*: RTN_LOCAL for this node, RTN_UNICAST for a way out. */
  readonly type: number
  readonly outInterfaceIndex: number | undefined
  /** Of any family. */
  readonly gateway: string | undefined
  /** The source that the kernel chose for a packet of this node. */
  readonly source: string | undefined
}

/**
 * RTM_GETROUTE; ENETUNREACH without a route, EINVAL for a source that the kernel does not accept,
 * EHOSTUNREACH, EACCES.
 */
export function encodeRouteLookup(batch: MessageBatch, lookup: RouteLookup): void {
  const { destination, source, inInterfaceIndex, mark = 0 } = lookup
  const family = familyOf(destination)
  const length = ADDRESS_LENGTH[family]
  const at = batch.begin(RTM_GETROUTE, 0, 'RTM_GETROUTE').header(RTMSG_BYTES)
  batch.setU8(at, FAMILY_NUMBER[family])
  batch.setU8(at + 1, length * 8)
  if (source !== undefined) batch.setU8(at + 2, length * 8)
  batch.written(RTA_DST, length, writeAddress, destination)
  if (source !== undefined) batch.written(RTA_SRC, length, writeAddress, source)
  if (inInterfaceIndex !== undefined) batch.u32(RTA_IIF, inInterfaceIndex)
  if (mark !== 0) batch.u32(RTA_MARK, mark)
  batch.end()
}

export function decodeFoundRoute(message: ReceivedMessage): FoundRoute {
  const { bytes, view, start, end } = message
  if (message.type !== RTM_NEWROUTE || end - start < RTMSG_BYTES)
    throw netlinkError('netlink-malformed', `message type ${message.type} of ${end - start} bytes instead of a route`)
  const family = familyOfNumber(view.getUint8(start))
  if (family === undefined) throw netlinkError('netlink-malformed', `route of family ${view.getUint8(start)}`)
  const found: { -readonly [field in keyof FoundRoute]: FoundRoute[field] } = {
    type: view.getUint8(start + 7),
    outInterfaceIndex: undefined,
    gateway: undefined,
    source: undefined,
  }
  const attributes = new AttributeCursor(bytes, start + RTMSG_BYTES, end, view)
  while (attributes.next()) {
    switch (attributes.type) {
      case RTA_OIF:
        found.outInterfaceIndex = attributes.u32()
        break
      case RTA_GATEWAY:
        attributes.expect(ADDRESS_LENGTH[family])
        found.gateway = readAddress(bytes, attributes.offset, family)
        break
      case RTA_VIA: {
        // struct rtvia: the family of an address of another family than the route's, and the address.
        attributes.expect(VIA_FAMILY_BYTES)
        const other = familyOfNumber(view.getUint16(attributes.offset, true))
        if (other === undefined) break
        attributes.expect(VIA_FAMILY_BYTES + ADDRESS_LENGTH[other])
        found.gateway = readAddress(bytes, attributes.offset + VIA_FAMILY_BYTES, other)
        break
      }
      case RTA_PREFSRC:
        attributes.expect(ADDRESS_LENGTH[family])
        found.source = readAddress(bytes, attributes.offset, family)
        break
    }
  }
  return found
}
