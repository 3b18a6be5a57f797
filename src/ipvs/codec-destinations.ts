/**
 * IPVS destinations (real servers) on the wire. A listed destination does not name its service; a
 * kernel before 3.18 does not send its family either, which then is the service's. Written by hand,
 * as codec.ts says.
 */
import type { AttributeCursor } from '../netlink/attributes.ts'
import type { MessageBatch } from '../netlink/batch.ts'
import { netlinkError } from '../netlink/errors.ts'
import { genericAttributes } from '../netlink/generic-codec.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { familyOf, readAddress, writeAddress } from '../values/address.ts'
import { FAMILY_NUMBER, familyOfNumber, type IpFamily } from '../values/protocol.ts'
import { readTraffic, TRAFFIC_FIELDS } from './codec-traffic.ts'
import { ADDRESS_BYTES, IPVS_CMD, IPVS_CMD_ATTR, IPVS_DEST_ATTR } from './codec.ts'
import type { ForwardingMethod, RealServer } from './types.ts'

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

/**
 * IP_VS_CONN_F_MASQ, _LOCALNODE, _TUNNEL, _DROUTE, _BYPASS of linux/ip_vs.h, by number. The kernel
 * also accepts 5 to 7.
 */
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
 * Reads a NEW_DEST message (a line of a dump); undefined for a destination of an address family
 * that we do not know.
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
