/**
 * IPVS services (virtual servers) and their destinations (real servers) on the wire. The netmask is big endian for IPv4 (a
 * mask) and in host order for IPv6 (a prefix length). The kernel lists IP_VS_SVC_F_HASHED, its own flag, which is no part of
 * the flags that are compared. A listed destination does not name its service; a kernel before 3.18 does not send its family
 * either, which then is the service's. Written by hand, as codec.ts says.
 */
import type { AttributeCursor } from '../netlink/attributes.ts'
import type { MessageBatch } from '../netlink/batch.ts'
import { netlinkError } from '../netlink/errors.ts'
import { genericAttributes } from '../netlink/generic-codec.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { familyOf, readAddress, writeAddress } from '../values/address.ts'
import { FAMILY_NUMBER, familyOfNumber, type IpFamily, PROTOCOL_NUMBER, protocolOfNumber } from '../values/protocol.ts'
import { ADDRESS_BYTES, IPVS_CMD, IPVS_CMD_ATTR, IPVS_DEST_ATTR, IPVS_STATS_ATTR, IPVS_SVC_ATTR } from './codec.ts'
import {
  FLAG_HASHED,
  type ForwardingMethod,
  type RealServer,
  type VirtualServerFields,
  type VirtualServerId,
  virtualServerKey,
  type VirtualServerKey,
} from './types.ts'

/** Identity of a virtual server that has a firewall mark instead of an address. */
export interface FwmarkId {
  readonly family: IpFamily
  /** 1 to 0xffffffff */
  readonly fwmark: number
}

/** Identity of any IPVS service. */
export type ServiceId = VirtualServerId | FwmarkId

/** A firewall-mark service with all its fields. */
export type FwmarkFields = FwmarkId &
  Pick<VirtualServerFields, 'scheduler' | 'flags' | 'timeoutSeconds' | 'netmask' | 'persistenceEngine'>

/** All fields of a NEW_SERVICE or SET_SERVICE message. */
export type ServiceFields = VirtualServerFields | FwmarkFields

/** A service as a dump lists it, without its counters, which would make an audit slow. */
export type DecodedService =
  | { readonly kind: 'address'; readonly fields: VirtualServerFields }
  | { readonly kind: 'fwmark'; readonly fields: FwmarkFields }

/** IP_VS_SCHEDNAME_MAXLEN and IP_VS_PENAME_MAXLEN without the NUL. */
const MAX_NAME_LENGTH = 15
/** The mask of the flags that a request sets: all of them. */
const ALL_FLAGS = 0xffffffff

/** Writes the nested attribute that names a service. */
export function encodeServiceId(batch: MessageBatch, id: ServiceId): void {
  const nest = batch.nest(IPVS_CMD_ATTR.SERVICE)
  putServiceId(batch, id)
  batch.endNest(nest)
}

/** Writes the nested attribute with all fields of a service. An empty persistence engine is left out. */
export function encodeService(batch: MessageBatch, fields: ServiceFields): void {
  const nest = batch.nest(IPVS_CMD_ATTR.SERVICE)
  putServiceId(batch, fields)
  batch.string(IPVS_SVC_ATTR.SCHED_NAME, checkedName(fields.scheduler))
  if (fields.persistenceEngine !== '') batch.string(IPVS_SVC_ATTR.PE_NAME, checkedName(fields.persistenceEngine))
  batch.u32Pair(IPVS_SVC_ATTR.FLAGS, fields.flags, ALL_FLAGS)
  batch.u32(IPVS_SVC_ATTR.TIMEOUT, fields.timeoutSeconds)
  if (fields.family === 'IPv4') batch.u32be(IPVS_SVC_ATTR.NETMASK, fields.netmask)
  else batch.u32(IPVS_SVC_ATTR.NETMASK, fields.netmask)
  batch.endNest(nest)
}

/**
 * Reads a NEW_SERVICE message (a dump's line, the answer to GET_SERVICE); undefined for a service of a protocol or address
 * family that no Service of Kubernetes has. The kernel accepts any protocol number over generic netlink.
 */
export function decodeService(message: ReceivedMessage): DecodedService | undefined {
  const attributes = serviceAttributes(message)
  let familyNumber = -1
  let protocolNumber = -1
  let addressAt = -1
  let port = -1
  let fwmark = 0
  let scheduler: string | undefined
  let flags = -1
  let timeoutSeconds = -1
  let netmask = -1
  let netmaskBigEndian = -1
  let persistenceEngine = ''
  while (attributes.next()) {
    switch (attributes.type) {
      case IPVS_SVC_ATTR.AF:
        familyNumber = attributes.u16()
        break
      case IPVS_SVC_ATTR.PROTOCOL:
        protocolNumber = attributes.u16()
        break
      case IPVS_SVC_ATTR.ADDR:
        attributes.expect(ADDRESS_BYTES)
        addressAt = attributes.offset
        break
      case IPVS_SVC_ATTR.PORT:
        port = attributes.u16be()
        break
      case IPVS_SVC_ATTR.FWMARK:
        fwmark = attributes.u32()
        break
      case IPVS_SVC_ATTR.SCHED_NAME:
        scheduler = interned(attributes.string())
        break
      case IPVS_SVC_ATTR.PE_NAME:
        persistenceEngine = interned(attributes.string())
        break
      case IPVS_SVC_ATTR.FLAGS:
        // struct ip_vs_flags: the flags, then a mask.
        flags = (attributes.u32() & ~FLAG_HASHED) >>> 0
        break
      case IPVS_SVC_ATTR.TIMEOUT:
        timeoutSeconds = attributes.u32()
        break
      case IPVS_SVC_ATTR.NETMASK:
        netmask = attributes.u32()
        netmaskBigEndian = attributes.u32be()
        break
    }
  }
  if (familyNumber < 0 || scheduler === undefined || flags < 0 || timeoutSeconds < 0 || netmask < 0) throw incomplete()
  const family = familyOfNumber(familyNumber)
  if (family === undefined) return undefined
  if (family === 'IPv4') netmask = netmaskBigEndian
  if (fwmark !== 0)
    return { kind: 'fwmark', fields: { family, fwmark, scheduler, flags, timeoutSeconds, netmask, persistenceEngine } }
  if (protocolNumber < 0 || addressAt < 0 || port < 0) throw incomplete()
  const protocol = protocolOfNumber(protocolNumber)
  if (protocol === undefined) return undefined
  const address = readAddress(attributes.bytes, addressAt, family)
  return {
    kind: 'address',
    fields: { family, address, port, protocol, scheduler, flags, timeoutSeconds, netmask, persistenceEngine },
  }
}

/** Reads the traffic of a NEW_SERVICE message (see readTraffic). The key is decoded only for a service with traffic. */
export function decodeServiceTraffic(message: ReceivedMessage, traffic: Float64Array): VirtualServerKey | undefined {
  if (!readTraffic(serviceAttributes(message), IPVS_SVC_ATTR.STATS, IPVS_SVC_ATTR.STATS64, traffic)) return undefined
  const service = decodeService(message)
  return service?.kind === 'address' ? virtualServerKey(service.fields) : undefined
}

/** A virtual server as a dump lists it, with its counters (see readTraffic for their order). */
export interface CountedVirtualServer {
  readonly fields: VirtualServerFields
  readonly traffic: Float64Array
}

/** Reads a NEW_SERVICE message with its counters; undefined for a service that `decodeService` leaves out, or by firewall mark. */
export function decodeCountedService(message: ReceivedMessage): CountedVirtualServer | undefined {
  const service = decodeService(message)
  if (service?.kind !== 'address') return undefined
  const traffic = new Float64Array(TRAFFIC_FIELDS)
  readTraffic(serviceAttributes(message), IPVS_SVC_ATTR.STATS, IPVS_SVC_ATTR.STATS64, traffic, true)
  return { fields: service.fields, traffic }
}

function putServiceId(batch: MessageBatch, id: ServiceId): void {
  batch.u16(IPVS_SVC_ATTR.AF, FAMILY_NUMBER[id.family])
  if ('fwmark' in id) {
    batch.u32(IPVS_SVC_ATTR.FWMARK, id.fwmark)
    return
  }
  batch.u16(IPVS_SVC_ATTR.PROTOCOL, PROTOCOL_NUMBER[id.protocol])
  batch.written(IPVS_SVC_ATTR.ADDR, ADDRESS_BYTES, writeAddress, id.address)
  batch.u16be(IPVS_SVC_ATTR.PORT, id.port)
}

function serviceAttributes(message: ReceivedMessage): AttributeCursor {
  const attributes = genericAttributes(message, IPVS_CMD.NEW_SERVICE, 'IPVS_CMD_GET_SERVICE')
  while (attributes.next()) if (attributes.type === IPVS_CMD_ATTR.SERVICE) return attributes.nested()
  throw netlinkError('netlink-malformed', 'IPVS service message without a service')
}

function checkedName(name: string): string {
  if (Buffer.byteLength(name) > MAX_NAME_LENGTH || name.includes('\0'))
    throw netlinkError(
      'netlink-unencodable',
      `IPVS name ${JSON.stringify(name)} is longer than ${MAX_NAME_LENGTH} bytes or has a NUL`,
    )
  return name
}

function incomplete(): Error {
  return netlinkError('netlink-malformed', 'IPVS service message that lacks a field')
}

/** Scheduler names repeat in every service, so one string of each is shared. */
const names = new Map<string, string>()

function interned(name: string): string {
  const known = names.get(name)
  if (known !== undefined) return known
  if (names.size < 64) names.set(name, name)
  return name
}

/** The counters that only grow: IPVS_STATS_ATTR.CONNS and the four after it. The others are rates. */
const TRAFFIC_FIELDS = 5

/**
 * Reads connections, packets in and out, bytes in and out into `traffic`, in this order; numbers are exact up to 2^53. The
 * counters are in STATS64 (kernel 4.1), else in STATS, whose byte counters have 64 bits and whose others have 32. Returns false
 * when there was no connection; then the rest is not read, unless `evenIdle`: after `ipvsadm -Z` the old connections still count
 * packets.
 */
export function readTraffic(
  attributes: AttributeCursor,
  stats: number,
  stats64: number,
  traffic: Float64Array,
  evenIdle = false,
): boolean {
  while (attributes.next()) {
    if (attributes.type !== stats64 && attributes.type !== stats) continue
    const is64 = attributes.type === stats64
    const counters = attributes.nested()
    while (counters.next()) {
      // IPVS_STATS_ATTR_CONNS is 1 and is written first.
      const index = counters.type - IPVS_STATS_ATTR.CONNS
      if (index < 0 || index >= TRAFFIC_FIELDS) continue
      const value = counters.length >= 8 ? Number(counters.u64()) : counters.u32()
      if (index === 0 && value === 0 && !evenIdle) return false
      traffic[index] = value
    }
    if (is64) return true
  }
  return true
}

/** A destination as a dump lists it, without its counters of packets and bytes. */
export interface DecodedDestination {
  readonly realServer: RealServer
  readonly activeConnections: number
  readonly inactiveConnections: number
  readonly persistentConnections: number
}

/** A destination with its counters too. */
export interface CountedDestination extends DecodedDestination {
  readonly traffic: Float64Array
}

/** As `decodeDestination`, with the counters. */
export function decodeCountedDestination(
  message: ReceivedMessage,
  serviceFamily: IpFamily,
): CountedDestination | undefined {
  const destination = decodeDestination(message, serviceFamily)
  if (destination === undefined) return undefined
  const traffic = new Float64Array(TRAFFIC_FIELDS)
  readTraffic(destinationAttributes(message), IPVS_DEST_ATTR.STATS, IPVS_DEST_ATTR.STATS64, traffic, true)
  return { ...destination, traffic }
}

/** IP_VS_CONN_F_MASQ, _LOCALNODE, _TUNNEL, _DROUTE, _BYPASS of linux/ip_vs.h, by number. The kernel also accepts 5 to 7. */
const FORWARDING: readonly ForwardingMethod[] = ['masquerade', 'local', 'tunnel', 'route', 'bypass']
const FORWARDING_NUMBER: Readonly<Record<ForwardingMethod, number>> = {
  masquerade: 0,
  local: 1,
  tunnel: 2,
  route: 3,
  bypass: 4,
  // Only written when another program's real server drains or is edited.
  unknown: 0,
}
/** IP_VS_CONN_F_FWD_MASK */
const FORWARDING_MASK = 0x7

/** Writes the nested attribute that names a destination. */
export function encodeDestinationId(batch: MessageBatch, id: Pick<RealServer, 'address' | 'port'>): void {
  const nest = batch.nest(IPVS_CMD_ATTR.DEST)
  putDestinationId(batch, id)
  batch.endNest(nest)
}

/** Writes the nested attribute with all fields of a destination. */
export function encodeDestination(batch: MessageBatch, server: RealServer): void {
  const nest = batch.nest(IPVS_CMD_ATTR.DEST)
  putDestinationId(batch, server)
  batch.u32(IPVS_DEST_ATTR.FWD_METHOD, FORWARDING_NUMBER[server.forwarding])
  batch.u32(IPVS_DEST_ATTR.WEIGHT, server.weight)
  batch.u32(IPVS_DEST_ATTR.U_THRESH, server.upperThreshold)
  batch.u32(IPVS_DEST_ATTR.L_THRESH, server.lowerThreshold)
  batch.endNest(nest)
}

/**
 * Reads a NEW_DEST message (a line of a dump); undefined for a destination of an address family that we do not know.
 * @param serviceFamily family of the service, for kernels that do not send the destination's own
 */
export function decodeDestination(message: ReceivedMessage, serviceFamily: IpFamily): DecodedDestination | undefined {
  const attributes = destinationAttributes(message)
  let family: IpFamily | undefined = serviceFamily
  let addressAt = -1
  let port = -1
  let forwarding = -1
  let weight = -1
  let upperThreshold = -1
  let lowerThreshold = -1
  let activeConnections = -1
  let inactiveConnections = -1
  let persistentConnections = -1
  while (attributes.next()) {
    switch (attributes.type) {
      case IPVS_DEST_ATTR.ADDR_FAMILY:
        family = familyOfNumber(attributes.u16())
        break
      case IPVS_DEST_ATTR.ADDR:
        attributes.expect(ADDRESS_BYTES)
        addressAt = attributes.offset
        break
      case IPVS_DEST_ATTR.PORT:
        port = attributes.u16be()
        break
      case IPVS_DEST_ATTR.FWD_METHOD:
        forwarding = attributes.u32() & FORWARDING_MASK
        break
      case IPVS_DEST_ATTR.WEIGHT:
        weight = attributes.u32()
        break
      case IPVS_DEST_ATTR.U_THRESH:
        upperThreshold = attributes.u32()
        break
      case IPVS_DEST_ATTR.L_THRESH:
        lowerThreshold = attributes.u32()
        break
      case IPVS_DEST_ATTR.ACTIVE_CONNS:
        activeConnections = attributes.u32()
        break
      case IPVS_DEST_ATTR.INACT_CONNS:
        inactiveConnections = attributes.u32()
        break
      case IPVS_DEST_ATTR.PERSIST_CONNS:
        persistentConnections = attributes.u32()
        break
    }
  }
  if (addressAt < 0 || port < 0 || weight < 0 || upperThreshold < 0 || lowerThreshold < 0 || forwarding < 0)
    throw netlinkError('netlink-malformed', 'IPVS destination message that lacks a field')
  if (activeConnections < 0 || inactiveConnections < 0 || persistentConnections < 0)
    throw netlinkError('netlink-malformed', 'IPVS destination message without connection counts')
  if (family === undefined) return undefined
  return {
    realServer: {
      address: readAddress(attributes.bytes, addressAt, family),
      port,
      weight,
      forwarding: FORWARDING[forwarding] ?? 'unknown',
      upperThreshold,
      lowerThreshold,
    },
    activeConnections,
    inactiveConnections,
    persistentConnections,
  }
}

function putDestinationId(batch: MessageBatch, id: Pick<RealServer, 'address' | 'port'>): void {
  batch.u16(IPVS_DEST_ATTR.ADDR_FAMILY, FAMILY_NUMBER[familyOf(id.address)])
  batch.written(IPVS_DEST_ATTR.ADDR, ADDRESS_BYTES, writeAddress, id.address)
  batch.u16be(IPVS_DEST_ATTR.PORT, id.port)
}

function destinationAttributes(message: ReceivedMessage): AttributeCursor {
  const attributes = genericAttributes(message, IPVS_CMD.NEW_DEST, 'IPVS_CMD_GET_DEST')
  while (attributes.next()) if (attributes.type === IPVS_CMD_ATTR.DEST) return attributes.nested()
  throw netlinkError('netlink-malformed', 'IPVS destination message without a destination')
}
