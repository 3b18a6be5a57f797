/**
 * Counters of services and destinations: the nested STATS64 attribute (kernel 4.1), else the 32-bit STATS.
 * What could break: in STATS the byte counters are 64 bit already, everything else is 32 bit.
 */
import type { AttributeCursor } from '../netlink/attributes.ts'
import { netlinkError } from '../netlink/errors.ts'
import { IPVS_STATS_ATTR } from './codec-constants.ts'
import type { Statistics } from './types.ts'

const FIELDS: ReadonlyMap<number, keyof Statistics> = new Map<number, keyof Statistics>([
  [IPVS_STATS_ATTR.CONNS, 'connections'],
  [IPVS_STATS_ATTR.INPKTS, 'inPackets'],
  [IPVS_STATS_ATTR.OUTPKTS, 'outPackets'],
  [IPVS_STATS_ATTR.INBYTES, 'inBytes'],
  [IPVS_STATS_ATTR.OUTBYTES, 'outBytes'],
  [IPVS_STATS_ATTR.CPS, 'connectionsPerSecond'],
  [IPVS_STATS_ATTR.INPPS, 'inPacketsPerSecond'],
  [IPVS_STATS_ATTR.OUTPPS, 'outPacketsPerSecond'],
  [IPVS_STATS_ATTR.INBPS, 'inBytesPerSecond'],
  [IPVS_STATS_ATTR.OUTBPS, 'outBytesPerSecond'],
])

/**
 * Reads the counters of the service or destination whose attributes `attributes` walks.
 * @param stats and @param stats64 the types of its two nested attributes
 */
export function decodeStatistics(attributes: AttributeCursor, stats: number, stats64: number): Statistics {
  let narrow: Statistics | undefined
  while (attributes.next()) {
    if (attributes.type === stats64) return decodeCounters(attributes.nested())
    if (attributes.type === stats) narrow = decodeCounters(attributes.nested())
  }
  if (narrow === undefined) throw netlinkError('netlink-malformed', 'IPVS reply without statistics')
  return narrow
}

/** The first five of FIELDS: those that only grow. */
const TRAFFIC_FIELDS = 5

/**
 * Reads connections, packets in and out, bytes in and out into `traffic`, in this order; numbers are exact up to 2^53. False when
 * there has been no connection: then the rest may not have been read.
 */
export function readTraffic(
  attributes: AttributeCursor,
  stats: number,
  stats64: number,
  traffic: Float64Array,
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
      if (index === 0 && value === 0) return false
      traffic[index] = value
    }
    if (is64) return true
  }
  return true
}

function decodeCounters(attributes: AttributeCursor): Statistics {
  const counters: { -readonly [field in keyof Statistics]: Statistics[field] } = {
    connections: 0n,
    inPackets: 0n,
    outPackets: 0n,
    inBytes: 0n,
    outBytes: 0n,
    connectionsPerSecond: 0n,
    inPacketsPerSecond: 0n,
    outPacketsPerSecond: 0n,
    inBytesPerSecond: 0n,
    outBytesPerSecond: 0n,
  }
  let found = 0
  while (attributes.next()) {
    const field = FIELDS.get(attributes.type)
    if (field === undefined) continue
    counters[field] = attributes.length >= 8 ? attributes.u64() : BigInt(attributes.u32())
    found++
  }
  if (found < FIELDS.size)
    throw netlinkError('netlink-malformed', `IPVS statistics with ${found} of ${FIELDS.size} counters`)
  return counters
}
