/** Counters of IPVS services and destinations on the wire. Written by hand, as codec.ts says. */
import type { AttributeCursor } from '../netlink/attributes.ts'
import { IPVS_STATS_ATTR } from './codec.ts'

/** The counters that only grow: IPVS_STATS_ATTR.CONNS and the four after it. The others are rates. */
export const TRAFFIC_FIELDS = 5
/** Where each of them is. */
export const [CONNECTIONS, PACKETS_IN, PACKETS_OUT, BYTES_IN, BYTES_OUT] = [0, 1, 2, 3, 4] as const

/**
 * Reads connections, packets in and out, bytes in and out into `traffic`, in this order; numbers
 * are exact up to 2^53. The counters are in STATS64 (kernel 4.1), else in STATS, whose byte
 * counters have 64 bits and whose others have 32. Returns false when there was no connection; then
 * the rest is not read, unless `evenIdle`: after `ipvsadm -Z` the old connections still count
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
