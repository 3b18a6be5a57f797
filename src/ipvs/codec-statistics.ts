/**
 * Counters of services: the nested STATS64 attribute (kernel 4.1), else STATS, in which the byte counters have 64 bits already
 * and everything else has 32.
 */
import type { AttributeCursor } from '../netlink/attributes.ts'
import { IPVS_STATS_ATTR } from './codec-constants.ts'

/** The counters that only grow: IPVS_STATS_ATTR.CONNS and the four after it. The others are rates. */
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
