/**
 * Routes on the wire (struct rtmsg and RTA_* of linux/rtnetlink.h). A table number above 255 is
 * only in RTA_TABLE; rtm_table is then 252 (RT_TABLE_COMPAT). Written by hand: there is no netlink
 * library for Node.
 */
import { ADDRESS_LENGTH, readAddress, writeAddress } from '../values/address.ts'
import { FAMILY_NUMBER, familyOfNumber, type IpFamily } from '../values/protocol.ts'
import { AttributeCursor } from './attributes.ts'
import type { MessageBatch } from './batch.ts'
import {
  NLM_F_CREATE,
  NLM_F_DUMP,
  NLM_F_EXCL,
  NLM_F_REPLACE,
  RTM_DELROUTE,
  RTM_GETROUTE,
  RTM_NEWROUTE,
} from './constants.ts'
import { netlinkError } from './errors.ts'
import type { ReceivedMessage } from './message.ts'

const RTA_DST = 1
const RTA_OIF = 4
const RTA_GATEWAY = 5
const RTA_PRIORITY = 6
const RTA_PREFSRC = 7
const RTA_MULTIPATH = 9
const RTA_TABLE = 15
const RTA_VIA = 18
const RTMSG_BYTES = 12
const RT_TABLE_COMPAT = 252
const RTM_F_CLONED = 0x200

/** RT_TABLE_LOCAL of linux/rtnetlink.h */
export const RT_TABLE_LOCAL = 255
/** RTN_UNICAST and RTN_LOCAL of linux/rtnetlink.h */
export const RTN_UNICAST = 1
export const RTN_LOCAL = 2
/** RTPROT_STATIC of linux/rtnetlink.h */
export const RTPROT_STATIC = 4

/** A route. Paths of a multipath route (RTA_MULTIPATH) and metrics are not read. */
export interface Route {
  readonly family: IpFamily
  /** Canonical text; the unspecified address for a default route (`0.0.0.0`, `::`) */
  readonly destination: string
  readonly prefixLength: number
  readonly table: number
  /** RTN_* */
  readonly type: number
  /** RT_SCOPE_* */
  readonly scope: number
  /** RTPROT_* */
  readonly protocol: number
  readonly gateway?: string
  /** RTA_OIF */
  readonly outInterfaceIndex?: number
  /** RTA_PREFSRC */
  readonly preferredSource?: string | undefined
  /** RTA_PRIORITY (metric); without it 0 for IPv4 and 1024 for IPv6. */
  readonly priority?: number
}

/** What an added route does where there is one to the same destination with the same priority. */
export type AddRouteMode =
  /** EEXIST. */
  | 'exclusive'
  /** IPv4: the new route is before the others and is used; EEXIST when they are equal in everything. */
  | 'prepend'
  /** IPv6: the new route replaces it at once. */
  | 'replace'

const ADD_FLAGS: Readonly<Record<AddRouteMode, number>> = {
  exclusive: NLM_F_CREATE | NLM_F_EXCL,
  prepend: NLM_F_CREATE,
  replace: NLM_F_CREATE | NLM_F_REPLACE,
}

/** Which routes a dump lists. */
export type RouteFilter = Pick<Route, 'table' | 'type' | 'protocol'>

/** RTM_NEWROUTE. */
export function encodeAddRoute(batch: MessageBatch, route: Route, mode: AddRouteMode = 'exclusive'): void {
  putRoute(batch, RTM_NEWROUTE, ADD_FLAGS[mode], 'RTM_NEWROUTE', route)
}

/** RTM_DELROUTE; ESRCH when the route does not exist. */
export function encodeDeleteRoute(batch: MessageBatch, route: Route): void {
  putRoute(batch, RTM_DELROUTE, 0, 'RTM_DELROUTE', route)
}

/**
 * RTM_GETROUTE of one family, or of both. A filter only has an effect on a socket with
 * NETLINK_GET_STRICT_CHK (Linux 4.20); otherwise the answer has all routes.
 */
export function encodeDumpRoutes(batch: MessageBatch, family?: IpFamily, filter?: RouteFilter): void {
  const at = batch.begin(RTM_GETROUTE, NLM_F_DUMP, 'RTM_GETROUTE').header(RTMSG_BYTES)
  batch.setU8(at, family === undefined ? 0 : FAMILY_NUMBER[family])
  if (filter !== undefined) {
    batch.setU8(at + 4, filter.table > 255 ? RT_TABLE_COMPAT : filter.table)
    batch.setU8(at + 5, filter.protocol)
    batch.setU8(at + 7, filter.type)
    batch.u32(RTA_TABLE, filter.table)
  }
  batch.end()
}

/** Reads RTM_NEWROUTE or RTM_DELROUTE; undefined for other families (multicast, MPLS) and for cached entries. */
export function decodeRoute(message: ReceivedMessage): Route | undefined {
  if (message.type !== RTM_NEWROUTE && message.type !== RTM_DELROUTE)
    throw netlinkError('netlink-malformed', `message type ${message.type} instead of a route`)
  const { bytes, view, start, end } = message
  if (end - start < RTMSG_BYTES) throw netlinkError('netlink-malformed', `route message of ${end - start} bytes`)
  const family = familyOfNumber(view.getUint8(start))
  if (family === undefined || (view.getUint32(start + 8, true) & RTM_F_CLONED) !== 0) return undefined
  const length = ADDRESS_LENGTH[family]
  const prefixLength = view.getUint8(start + 1)
  if (prefixLength > length * 8)
    throw netlinkError('netlink-malformed', `${family} route with prefix length ${prefixLength}`)
  const route: { -readonly [field in keyof Route]: Route[field] } = {
    family,
    destination: family === 'IPv4' ? '0.0.0.0' : '::',
    prefixLength,
    table: view.getUint8(start + 4),
    protocol: view.getUint8(start + 5),
    scope: view.getUint8(start + 6),
    type: view.getUint8(start + 7),
  }
  let hasDestination = false
  const attributes = new AttributeCursor(bytes, start + RTMSG_BYTES, end, view)
  while (attributes.next()) {
    switch (attributes.type) {
      case RTA_DST:
        attributes.expect(length)
        route.destination = readAddress(bytes, attributes.offset, family)
        hasDestination = true
        break
      case RTA_GATEWAY:
        attributes.expect(length)
        route.gateway = readAddress(bytes, attributes.offset, family)
        break
      case RTA_PREFSRC:
        attributes.expect(length)
        route.preferredSource = readAddress(bytes, attributes.offset, family)
        break
      case RTA_OIF:
        route.outInterfaceIndex = attributes.u32()
        break
      case RTA_PRIORITY:
        route.priority = attributes.u32()
        break
      case RTA_TABLE:
        route.table = attributes.u32()
        break
    }
  }
  if (prefixLength > 0 && !hasDestination)
    throw netlinkError('netlink-malformed', 'route message without a destination')
  return route
}

/** struct rtmsg: family, destination and source prefix length, tos, table, protocol, scope, type, flags at +8. */
function putRoute(batch: MessageBatch, type: number, flags: number, operation: string, route: Route): void {
  const length = ADDRESS_LENGTH[route.family]
  const at = batch.begin(type, flags, operation).header(RTMSG_BYTES)
  batch.setU8(at, FAMILY_NUMBER[route.family])
  batch.setU8(at + 1, route.prefixLength)
  batch.setU8(at + 4, route.table > 255 ? RT_TABLE_COMPAT : route.table)
  batch.setU8(at + 5, route.protocol)
  batch.setU8(at + 6, route.scope)
  batch.setU8(at + 7, route.type)
  if (route.prefixLength > 0) batch.written(RTA_DST, length, writeAddress, route.destination)
  if (route.gateway !== undefined) batch.written(RTA_GATEWAY, length, writeAddress, route.gateway)
  if (route.preferredSource !== undefined) batch.written(RTA_PREFSRC, length, writeAddress, route.preferredSource)
  if (route.outInterfaceIndex !== undefined) batch.u32(RTA_OIF, route.outInterfaceIndex)
  if (route.priority !== undefined) batch.u32(RTA_PRIORITY, route.priority)
  batch.u32(RTA_TABLE, route.table)
  batch.end()
}

const NEXTHOP_BYTES = 8
const VIA_FAMILY_BYTES = 2

/** The gateways of a route as canonical addresses; undefined for a route without one. */
export function decodeGateways(
  message: ReceivedMessage,
): { readonly isDefault: boolean; readonly gateways: readonly string[] } | undefined {
  const { bytes, view, start, end } = message
  if (end - start < RTMSG_BYTES) throw netlinkError('netlink-malformed', `route message of ${end - start} bytes`)
  const family = familyOfNumber(view.getUint8(start))
  if (family === undefined || view.getUint8(start + 7) !== RTN_UNICAST) return undefined
  const gateways = gatewaysIn(new AttributeCursor(bytes, start + RTMSG_BYTES, end, view), family, view)
  return gateways.length === 0 ? undefined : { isDefault: view.getUint8(start + 1) === 0, gateways }
}

function gatewaysIn(
  attributes: AttributeCursor,
  family: IpFamily,
  view: DataView,
  isNextHop = false,
): readonly string[] {
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
        // A next hop has none of its own.
        if (!isNextHop)
          for (const nextHop of nextHops(attributes, view))
            found.push(...gatewaysIn(nextHop.attributes, family, view, true))
        break
    }
  }
  return found
}

/** Indexes of the interfaces through which a route leads to gateways; undefined for a route without a gateway. */
export function decodeGatewayInterfaces(message: ReceivedMessage): readonly number[] | undefined {
  const { bytes, view, start, end } = message
  if (end - start < RTMSG_BYTES) throw netlinkError('netlink-malformed', `route message of ${end - start} bytes`)
  const family = familyOfNumber(view.getUint8(start))
  if (family === undefined || view.getUint8(start + 7) !== RTN_UNICAST) return undefined
  const found: number[] = []
  let [index, hasGateway] = [0, false]
  const attributes = new AttributeCursor(bytes, start + RTMSG_BYTES, end, view)
  while (attributes.next()) {
    if (attributes.type === RTA_OIF) index = attributes.u32()
    else if (attributes.type === RTA_GATEWAY || attributes.type === RTA_VIA) hasGateway = true
    else if (attributes.type === RTA_MULTIPATH)
      for (const nextHop of nextHops(attributes, view))
        if (gatewaysIn(nextHop.attributes, family, view, true).length > 0) found.push(nextHop.interfaceIndex)
  }
  if (hasGateway) found.push(index)
  return found.length === 0 ? undefined : found
}

interface NextHop {
  readonly interfaceIndex: number
  readonly attributes: AttributeCursor
}

/** Each struct rtnexthop: its length, flags, hops and interface, then the attributes. */
function* nextHops({ bytes, offset, length }: AttributeCursor, view: DataView): Generator<NextHop> {
  const end = offset + length
  for (let at = offset; at + NEXTHOP_BYTES <= end; ) {
    const size = view.getUint16(at, true)
    if (size < NEXTHOP_BYTES || at + size > end)
      throw netlinkError('netlink-malformed', `next hop of ${size} bytes where ${end - at} are left`)
    yield {
      interfaceIndex: view.getUint32(at + 4, true),
      attributes: new AttributeCursor(bytes, at + NEXTHOP_BYTES, at + size, view),
    }
    at += (size + 3) & ~3
  }
}
