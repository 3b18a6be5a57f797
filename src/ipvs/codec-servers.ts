/**
 * IPVS services (virtual servers) on the wire. The netmask is big endian for IPv4 (a mask) and in
 * host order for IPv6 (a prefix length). The kernel lists IP_VS_SVC_F_HASHED, its own flag, which
 * is no part of the flags that are compared. Written by hand, as codec.ts says.
 */
import type { AttributeCursor } from '../netlink/attributes.ts'
import type { MessageBatch } from '../netlink/batch.ts'
import { netlinkError } from '../netlink/errors.ts'
import { genericAttributes } from '../netlink/generic-codec.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { readAddress, writeAddress } from '../values/address.ts'
import { FAMILY_NUMBER, familyOfNumber, type IpFamily, PROTOCOL_NUMBER, protocolOfNumber } from '../values/protocol.ts'
import { readTraffic, TRAFFIC_FIELDS } from './codec-traffic.ts'
import { ADDRESS_BYTES, IPVS_CMD, IPVS_CMD_ATTR, IPVS_SVC_ATTR } from './codec.ts'
import {
  FLAG_HASHED,
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
 * Reads a NEW_SERVICE message (a dump's line, the answer to GET_SERVICE); undefined for a service
 * of a protocol or address family that no Service of Kubernetes has. The kernel accepts any
 * protocol number over generic netlink.
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

/**
 * Reads a NEW_SERVICE message with its counters; undefined for a service that `decodeService`
 * leaves out, or by firewall mark.
 */
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
