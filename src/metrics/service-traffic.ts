/**
 * Connections, packets and bytes of Services, read from the counters of their virtual servers at a
 * scrape. The kernel counts from 0 after a virtual server was replaced, so the totals are sums of
 * the differences between scrapes. A Service that is listed stays listed until it is deleted,
 * because a counter that disappears breaks rate().
 * @impure
 */
import type { Clock } from '../values/clock.ts'

/** Indices of the counters of a virtual server. */
export const CONNECTIONS = 0
export const IN_PACKETS = 1
export const OUT_PACKETS = 2
export const IN_BYTES = 3
export const OUT_BYTES = 4
const COUNTERS = 5

/**
 * Receives the key of a virtual server that has had connections, and its counters, which the caller
 * reuses afterwards.
 */
export type TrafficVisitor = (key: string, counters: Float64Array) => void

export interface ServiceTrafficOptions {
  /** Maximum number of Services with metrics; with 0 the kernel is never read. */
  readonly limit: number
  /** Visits every virtual server once and yields to the event loop every few milliseconds. */
  readonly read: (visit: TrafficVisitor, signal: AbortSignal) => Promise<void>
  /** The Service that owns a virtual server; undefined when no Service owns it (any more). */
  readonly ownerOf: (key: string) => ServiceName | undefined
  readonly now: Clock
}

export interface ServiceName {
  readonly namespace: string
  readonly name: string
}

interface Total extends ServiceName {
  readonly counters: Float64Array
  /** The kernel's counters of each of its virtual servers at the previous scrape. */
  readonly previous: Map<string, Float64Array>
}

/** Longest time that a scrape waits for the kernel. */
const DEADLINE_MS = 4000
/**
 * Values are reused for FRESH_MS, or for REST_FACTOR times the duration of the last read: half a
 * percent of a core at most.
 */
const FRESH_MS = 5000
const REST_FACTOR = 200

export class ServiceTraffic {
  readonly #options: ServiceTrafficOptions
  readonly #totals = new Map<string, Total>()
  #leftOut: ReadonlySet<string> = new Set()
  #freshUntilMs = Number.NEGATIVE_INFINITY
  #failures = 0

  constructor(options: ServiceTrafficOptions) {
    this.#options = options
  }

  get totals(): Iterable<Readonly<Total>> {
    return this.#totals.values()
  }

  /** Number of Services with traffic that the limit leaves without metrics. */
  get leftOut(): number {
    return this.#leftOut.size
  }

  /** Failed reads since the start. */
  get failures(): number {
    return this.#failures
  }

  /** Updates the totals. When the kernel cannot be read, they keep their values. */
  async refresh(): Promise<void> {
    const { limit, read, now } = this.#options
    const startedMs = now()
    if (limit <= 0 || startedMs < this.#freshUntilMs) return
    const leftOut = new Set<string>()
    try {
      await read((key, counters) => this.#add(key, counters, leftOut), AbortSignal.timeout(DEADLINE_MS))
      this.#leftOut = leftOut
    } catch {
      this.#failures++
    }
    const endedMs = now()
    this.#freshUntilMs = endedMs + Math.max(FRESH_MS, (endedMs - startedMs) * REST_FACTOR)
    this.#dropDeleted()
  }

  #add(key: string, counters: Float64Array, leftOut: Set<string>): void {
    const owner = this.#options.ownerOf(key)
    if (owner === undefined) return
    const name = `${owner.namespace}/${owner.name}`
    let total = this.#totals.get(name)
    if (total === undefined) {
      if (this.#totals.size >= this.#options.limit) {
        leftOut.add(name)
        return
      }
      const { namespace, name: service } = owner
      total = { namespace, name: service, counters: new Float64Array(COUNTERS), previous: new Map() }
      this.#totals.set(name, total)
    }
    const before = total.previous.get(key)
    const sums = total.counters
    // The kernel counts from 0 again after the virtual server was replaced or its counters were reset (ipvsadm -Z).
    const restarted = before === undefined || (counters[CONNECTIONS] ?? 0) < (before[CONNECTIONS] ?? 0)
    for (let index = 0; index < COUNTERS; index++) {
      const grown = (counters[index] ?? 0) - (restarted ? 0 : (before[index] ?? 0))
      sums[index] = (sums[index] ?? 0) + Math.max(0, grown)
    }
    if (before === undefined) total.previous.set(key, counters.slice())
    else before.set(counters)
  }

  /** Drops Services and virtual servers that do not exist any more. */
  #dropDeleted(): void {
    for (const [name, { previous }] of this.#totals) {
      for (const key of previous.keys()) {
        const owner = this.#options.ownerOf(key)
        if (owner === undefined || `${owner.namespace}/${owner.name}` !== name) previous.delete(key)
      }
      if (previous.size === 0) this.#totals.delete(name)
    }
  }
}
