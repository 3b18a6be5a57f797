/**
 * What the kernel has counted for the Services of this node at one moment, in either mode, and the
 * rates between two moments. A place is what the kernel counts by: a virtual server in ipvs mode, a
 * Service port in iptables mode.
 */
import type { ProxyMode } from '../config/types.ts'

/**
 * Counters that only grow, or their rates: connections, packets from clients, packets to clients,
 * bytes from clients, bytes to clients. NaN: unknown. The order is that of IPVS.
 */
export type Traffic = Readonly<Float64Array>

export const CONNECTIONS = 0
export const PACKETS_IN = 1
export const PACKETS_OUT = 2
export const BYTES_IN = 3
export const BYTES_OUT = 4
const COUNTERS = 5

export interface RealServerSample {
  readonly traffic: Traffic
  /** It gets no new connections; never in iptables mode, where nothing drains. */
  readonly isDraining: boolean
  /** Connections at this moment, as the kernel tells them apart; NaN: unknown. */
  readonly active: number
  readonly inactive: number
}

export interface PlaceSample {
  /** `namespace/name:port`, where the kernel has it (comments of rules). */
  readonly servicePort?: string | undefined
  /** `10.96.0.1`: clients connect to these. */
  readonly addresses: readonly string[]
  readonly traffic: Traffic
  /** False: nothing was ever counted, so there are no connections. */
  readonly isUsed: boolean
  /** By key (`10.244.0.1:8080`); undefined: they were not read. */
  readonly realServers: ReadonlyMap<string, RealServerSample> | undefined
}

export interface Sample {
  readonly mode: ProxyMode
  /** Milliseconds of a clock that never goes back. */
  readonly atMs: number
  /** By key: of a virtual server (`10.96.0.1:80/tcp`), or of a Service port with its protocol. */
  readonly places: ReadonlyMap<string, PlaceSample>
  /** Places whose real servers were left out to save time. */
  readonly unread: number
  /** Why connections are unknown; undefined when they are known. */
  readonly withoutConnections?: string | undefined
}

/** A sample whose counters are rates a second. */
export interface Rates extends Sample {
  /** Between the two reads. */
  readonly seconds: number
}

export function unknownTraffic(): Float64Array {
  return new Float64Array(COUNTERS).fill(Number.NaN)
}

/** Whether something was ever counted. */
export function hasCounted(counters: Traffic): boolean {
  return counters.some((value) => value > 0)
}

/** The sum; what is unknown of one counts as nothing, what is unknown of both stays unknown. */
export function addTraffic(into: Float64Array, more: Traffic): void {
  for (let index = 0; index < COUNTERS; index++) {
    const [a = Number.NaN, b = Number.NaN] = [into[index], more[index]]
    into[index] = Number.isNaN(a) ? b : Number.isNaN(b) ? a : a + b
  }
}

/**
 * The rates of everything that both reads found. What appears between them has no rate before the
 * read after: the kernel lists virtual servers in parts and may leave one out of a list, so an
 * absent one need not have been at 0. A counter that has become smaller was set to 0 in between
 * (`ipvsadm -Z`, a replaced virtual server or chain), and has counted from there.
 */
export function ratesBetween(before: Sample, after: Sample): Rates {
  const seconds = Math.max(0.001, (after.atMs - before.atMs) / 1000)
  const places = new Map<string, PlaceSample>()
  for (const [key, place] of after.places) {
    const earlier = before.places.get(key)
    const realServers = place.realServers && new Map<string, RealServerSample>()
    for (const [name, server] of place.realServers ?? [])
      realServers?.set(name, {
        ...server,
        traffic: rate(earlier?.realServers?.get(name)?.traffic, server.traffic, seconds),
      })
    places.set(key, { ...place, traffic: rate(earlier?.traffic, place.traffic, seconds), realServers })
  }
  return { ...after, places, seconds }
}

function rate(before: Traffic | undefined, after: Traffic, seconds: number): Traffic {
  if (before === undefined) return unknownTraffic()
  const isReset = after.some((value, index) => value < (before[index] ?? 0))
  return after.map((value, index) => (value - (isReset ? 0 : (before[index] ?? 0))) / seconds)
}
