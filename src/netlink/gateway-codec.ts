/**
 * The gateways of a default route (struct rtmsg, RTA_GATEWAY, RTA_VIA and RTA_MULTIPATH of linux/rtnetlink.h). A route that is no
 * default route costs no more than a look at its header.
 */
import { ADDRESS_LENGTH, readAddress } from '../values/address.ts'
import { familyOfNumber, type IpFamily } from '../values/protocol.ts'
import { AttributeCursor } from './attributes.ts'
import { netlinkError } from './errors.ts'
import type { ReceivedMessage } from './message.ts'
import { RTN_UNICAST } from './route-codec.ts'

const RTA_GATEWAY = 5
const RTA_MULTIPATH = 9
const RTA_VIA = 18
const RTMSG_BYTES = 12
const NEXTHOP_BYTES = 8
const VIA_FAMILY_BYTES = 2

/** Canonical addresses; undefined for every other route, and for one that names no gateway. */
export function decodeDefaultGateways(message: ReceivedMessage): readonly string[] | undefined {
  const { bytes, start, end } = message
  if (end - start < RTMSG_BYTES) throw netlinkError('netlink-malformed', `route message of ${end - start} bytes`)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const family = familyOfNumber(view.getUint8(start))
  const isDefault = view.getUint8(start + 1) === 0 && view.getUint8(start + 7) === RTN_UNICAST
  if (family === undefined || !isDefault) return undefined
  const found = gatewaysIn(new AttributeCursor(bytes, start + RTMSG_BYTES, end, view), family, view)
  return found.length === 0 ? undefined : found
}

function gatewaysIn(attributes: AttributeCursor, family: IpFamily, view: DataView): readonly string[] {
  const found: string[] = []
  while (attributes.next()) {
    const { bytes, offset, length } = attributes
    switch (attributes.type) {
      case RTA_GATEWAY:
        if (length >= ADDRESS_LENGTH[family]) found.push(readAddress(bytes, offset, family))
        break
      case RTA_VIA: {
        // struct rtvia: the family of an address of another family than the route's, and the address.
        const other = length < VIA_FAMILY_BYTES ? undefined : familyOfNumber(view.getUint16(offset, true))
        if (other !== undefined && length >= VIA_FAMILY_BYTES + ADDRESS_LENGTH[other])
          found.push(readAddress(bytes, offset + VIA_FAMILY_BYTES, other))
        break
      }
      case RTA_MULTIPATH:
        for (const nextHop of nextHops(attributes, view)) found.push(...gatewaysIn(nextHop, family, view))
        break
    }
  }
  return found
}

/** Attributes of each struct rtnexthop: its length, flags, hops and interface, then the attributes. */
function* nextHops({ bytes, offset, length }: AttributeCursor, view: DataView): Generator<AttributeCursor> {
  const end = offset + length
  for (let at = offset; at + NEXTHOP_BYTES <= end; ) {
    const size = view.getUint16(at, true)
    if (size < NEXTHOP_BYTES || at + size > end)
      throw netlinkError('netlink-malformed', `next hop of ${size} bytes where ${end - at} are left`)
    yield new AttributeCursor(bytes, at + NEXTHOP_BYTES, at + size, view)
    at += (size + 3) & ~3
  }
}
