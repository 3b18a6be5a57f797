/**
 * Connections, packets and bytes of Services, added up from the counters of their virtual servers at a scrape.
 * What could break: a virtual server that is made anew counts from 0, so differences are added up, never the counters themselves;
 * and a Service keeps its place once it has one, for a counter that comes and goes is of no use.
 */
import type { Clock } from '../values/clock.ts'

/** Counters of a virtual server, in this order. */
export const CONNECTIONS = 0
export const IN_PACKETS = 1
export const OUT_PACKETS = 2
export const IN_BYTES = 3
export const OUT_BYTES = 4
const COUNTERS = 5

/** Gets the key of a virtual server that has had connections, and its counters, which are overwritten afterwards. */
export type TrafficVisitor = (key: string, counters: Float64Array) => void

export interface ServiceTrafficOptions {
  /** Services that get metrics of their own; 0: none, and the kernel is not asked. */
  readonly limit: number
  /** Visits every virtual server once, in turns of a few milliseconds. */
  readonly read: (visit: TrafficVisitor, signal: AbortSignal) => Promise<void>
  /** Whose virtual server this is; undefined: nobody's (any more). */
  readonly ownerOf: (key: string) => ServiceName | undefined
  readonly now: Clock
}

export interface ServiceName {
  readonly namespace: string
  readonly name: string
}

interface Total extends ServiceName {
  readonly counters: Float64Array
  /** Last seen counters of each of its virtual servers. */
  readonly seen: Map<string, Float64Array>
}

/** A scrape does not wait longer for the kernel. */
const DEADLINE_MS = 4000
/** What was read stays good for so long, and for this many times as long as reading it took: half a percent of a core at most. */
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

  /** Services with traffic that came when the limit was reached. */
  get leftOut(): number {
    return this.#leftOut.size
  }

  get failures(): number {
    return this.#failures
  }

  /** Brings the totals up to date. When the kernel cannot be read they stay as they are. */
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
    this.#forgetOthers()
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
      total = { namespace, name: service, counters: new Float64Array(COUNTERS), seen: new Map() }
      this.#totals.set(name, total)
    }
    const before = total.seen.get(key)
    const sums = total.counters
    // The kernel counts from 0 again when the virtual server was made anew or somebody reset it (ipvsadm -Z).
    const anew = before === undefined || (counters[CONNECTIONS] ?? 0) < (before[CONNECTIONS] ?? 0)
    for (let index = 0; index < COUNTERS; index++) {
      const grown = (counters[index] ?? 0) - (anew ? 0 : (before[index] ?? 0))
      sums[index] = (sums[index] ?? 0) + Math.max(0, grown)
    }
    if (before === undefined) total.seen.set(key, counters.slice())
    else before.set(counters)
  }

  /** Services and virtual servers that are gone make room. */
  #forgetOthers(): void {
    for (const [name, { seen }] of this.#totals) {
      for (const key of seen.keys()) {
        const owner = this.#options.ownerOf(key)
        if (owner === undefined || `${owner.namespace}/${owner.name}` !== name) seen.delete(key)
      }
      if (seen.size === 0) this.#totals.delete(name)
    }
  }
}
