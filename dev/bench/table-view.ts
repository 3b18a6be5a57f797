/**
 * Observes from outside, in the same kernel, whether a table is complete, with almost no load: it
 * reads a few Services until they are complete, then all of them, then again a few of those that
 * were not. The API server of the bench makes only IPv4 and TCP.
 */
import { setTimeout as sleep } from 'node:timers/promises'

/** A Service port as the kernel must have it. */
export interface Expected {
  /** `bench-0/service-1:http` */
  readonly port: string
  /** Its ClusterIP; the port is SERVICE_PORT. */
  readonly address: string
  /** Exactly these accept new connections: `10.244.0.1:8080`. */
  readonly endpoints: ReadonlySet<string>
}

/** The port of every Service. */
export const SERVICE_PORT = 80

/** What a mode writes to the kernel, as the bench reads it. */
export interface SeenTable {
  isThere(expected: Expected): Promise<boolean>
  hasEndpoint(expected: Expected, endpoint: string): Promise<boolean>
  /** Incomplete ones, found by reading everything; none only if all are complete. */
  missing(all: readonly Expected[]): Promise<Expected[]>
  close(): void
}

/** Services that are read in one round before all are. */
const SAMPLES = 48
/**
 * The pause between two readings: at least this, and so many times the duration of a reading.
 * Everything runs on one processor, so reading must cost little.
 */
const SHORTEST_PAUSE_MS = 2
const PAUSE_FACTOR = 25
/** The pause between two readings of the one endpoint that is about to be added, as above. */
const POLL_MS = 0.3
const POLL_FACTOR = 3
/** After so long a longer pause is enough. */
const SLOW_MS = 500
const SLOW_POLL_MS = 5

export class TableView {
  readonly #table: SeenTable

  constructor(table: SeenTable) {
    this.#table = table
  }

  close(): void {
    this.#table.close()
  }

  /**
   * Resolves to the time (monotonicMs) at which the table was complete, or undefined when it was
   * not by `deadlineMs`. It is the time of the last reading before which this process paused:
   * whatever it finds without another pause counts as complete at that time.
   */
  async whenComplete(all: readonly Expected[], deadlineMs: number, alive: () => boolean): Promise<number | undefined> {
    let missing = all
    for (;;) {
      // The last Service first: most programs write it last, and then the others are complete already.
      const pending = sample(missing, SAMPLES)
      let atMs = monotonicMs()
      let waited = false
      for (let expected = pending.at(-1); expected !== undefined; expected = pending.at(-1)) {
        const lookedMs = monotonicMs()
        if (await this.#table.isThere(expected)) {
          pending.pop()
          if (waited) atMs = lookedMs
          waited = false
          continue
        }
        if (monotonicMs() > deadlineMs || !alive()) return undefined
        waited = true
        await sleep(Math.max(SHORTEST_PAUSE_MS, (monotonicMs() - lookedMs) * PAUSE_FACTOR))
      }
      missing = await this.#table.missing(all)
      if (missing.length === 0) return atMs
    }
  }

  /**
   * Resolves to the time at which the added endpoint took connections, or undefined. Nothing else
   * runs in this process in the first half second.
   */
  async whenAdded(
    change: { readonly expected: readonly Expected[]; readonly added: string },
    deadlineMs: number,
  ): Promise<number | undefined> {
    const [expected] = change.expected
    if (expected === undefined) return undefined
    const slowMs = monotonicMs() + SLOW_MS
    for (;;) {
      const lookedMs = monotonicMs()
      if (await this.#table.hasEndpoint(expected, change.added)) return monotonicMs()
      const nowMs = monotonicMs()
      if (nowMs > deadlineMs) return undefined
      if (nowMs > slowMs) await sleep(SLOW_POLL_MS)
      else pause(Math.max(POLL_MS, (nowMs - lookedMs) * POLL_FACTOR))
    }
  }
}

const pauseCell = new Int32Array(new SharedArrayBuffer(4))
/** A timer of node waits at least a whole millisecond. */
function pause(ms: number): void {
  Atomics.wait(pauseCell, 0, 0, ms)
}

/** Up to `count` items evenly over the list, the last one among them. */
export function sample<T>(items: readonly T[], count: number): T[] {
  if (items.length <= count) return [...items]
  const step = items.length / count
  return Array.from(
    { length: count },
    (_, index) => items[Math.min(items.length - 1, Math.ceil((index + 1) * step) - 1)],
  ).filter((item) => item !== undefined)
}

export const sameSet = (a: ReadonlySet<string>, b: ReadonlySet<string>): boolean =>
  a.size === b.size && [...a].every((item) => b.has(item))

/** CLOCK_MONOTONIC in milliseconds: the same in every process of a kernel, which performance.now() is not. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
