/**
 * Which Events are going on, and what of them the API server has not heard: client-go's rules for repetitions. The first time
 * is an Event of its own, the second makes a series of it, and from then on it is only counted, until it has been quiet for
 * six minutes or has not been told for thirty.
 * What could break: what happened is the same when regarding, type, reason and action are; the note does not count, so that
 * requests stay few however notes vary. And what is kept is bounded: beyond that nothing new is told.
 */
import {
  createRequest,
  type EventObject,
  type EventRequest,
  eventOf,
  type Happening,
  microTime,
  repeatRequest,
  type Series,
} from './event-objects.ts'

/** What makes two happenings one series. */
export type SeriesKey = string

/** A series that was quiet for so long is over: the next time is an Event of its own again. */
export const FINISH_MS = 6 * 60_000
/** A series that goes on is told so often, because the API server forgets Events after an hour. */
const REFRESH_MS = 30 * 60_000
/** As many as client-go lets wait. */
export const MAX_SERIES = 1000

interface Going {
  readonly event: EventObject
  count: number
  /** When it happened last, in milliseconds of Unix time. */
  lastMs: number
  /** The count of the last request that is over, whether it went well or was given up; 0 before that. */
  settledCount: number
  settledMs: number
}

export class EventSeries {
  readonly #hostName: string
  readonly #going = new Map<SeriesKey, Going>()
  #lastNanos = 0n

  constructor(hostName: string) {
    this.#hostName = hostName
  }

  /** Counts it. The key, when the API server is to hear of that now. `nowMs`: Unix time in milliseconds. */
  record(happening: Happening, nowMs: number): SeriesKey | undefined {
    const { regarding, type, reason, action } = happening
    const key = JSON.stringify([regarding.kind, regarding.namespace, regarding.name, type, reason, action])
    const going = this.#going.get(key)
    if (going !== undefined) {
      going.count++
      going.lastMs = nowMs
      return going.count === 2 ? key : undefined
    }
    if (this.#going.size >= MAX_SERIES) return undefined
    const event = eventOf(happening, this.#hostName, this.#uniqueNanos(nowMs))
    this.#going.set(key, { event, count: 1, lastMs: nowMs, settledCount: 0, settledMs: nowMs })
    return key
  }

  /** The request that tells all there is to tell; undefined when the series is over. */
  request(key: SeriesKey): EventRequest | undefined {
    const going = this.#going.get(key)
    if (going === undefined) return undefined
    const series = seriesOf(going)
    return series === undefined || going.settledCount === 0
      ? createRequest(going.event, series)
      : repeatRequest(going.event, series)
  }

  /** The same for a server that does not have the Event any more. */
  requestAnew(key: SeriesKey): EventRequest | undefined {
    const going = this.#going.get(key)
    return going && createRequest(going.event, seriesOf(going))
  }

  /** How often it happened by now; 0 when it is over. */
  count(key: SeriesKey): number {
    return this.#going.get(key)?.count ?? 0
  }

  /** The API server heard of it (or never will) up to this count. */
  settle(key: SeriesKey, count: number, nowMs: number): void {
    const going = this.#going.get(key)
    if (going === undefined) return
    going.settledCount = count
    going.settledMs = nowMs
  }

  /** Forgets what is over. The keys of what is to be told once more; call it every FINISH_MS. */
  sweep(nowMs: number): readonly SeriesKey[] {
    const due: SeriesKey[] = []
    for (const [key, { count, settledCount, lastMs, settledMs }] of this.#going) {
      const quiet = nowMs - lastMs > FINISH_MS
      if (quiet && count === settledCount) this.#going.delete(key)
      else if (quiet || (count > 1 && nowMs - settledMs >= REFRESH_MS)) due.push(key)
    }
    return due
  }

  #uniqueNanos(nowMs: number): bigint {
    const nanos = BigInt(nowMs) * 1_000_000n
    this.#lastNanos = nanos > this.#lastNanos ? nanos : this.#lastNanos + 1n
    return this.#lastNanos
  }
}

function seriesOf({ count, lastMs }: Going): Series | undefined {
  return count < 2 ? undefined : { count, lastObservedTime: microTime(lastMs) }
}
