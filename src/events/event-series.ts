/**
 * Counts repeated Events with client-go's rules: the first occurrence creates an Event, the second
 * makes it a series, and later ones are only counted, until the series was quiet for six minutes or
 * was last sent thirty minutes ago. Occurrences with equal regarding, type, reason and action are
 * one series; the note may differ, so that varying notes cause no more requests.
 */
import {
  createRequest,
  type EventObject,
  type EventRequest,
  eventOf,
  microTime,
  type Occurrence,
  repeatRequest,
  type Series,
} from './event-objects.ts'

/** Equal for all occurrences of one series. */
export type SeriesKey = string

/** A series without an occurrence for this long has ended: the next occurrence creates a new Event. */
export const FINISH_MS = 6 * 60_000
/** An ongoing series is sent again after this time, because the API server deletes Events after an hour. */
const REFRESH_MS = 30 * 60_000
/**
 * Most series at a time, as many as client-go queues. Occurrences that would start a new series are
 * dropped, except those about the node, which are few.
 */
export const MAX_SERIES = 1000

const NODE = 'Node'

interface OngoingSeries {
  readonly event: EventObject
  count: number
  /** Time of the last occurrence, in milliseconds of Unix time. */
  lastMs: number
  /** The count in the last request that succeeded or was given up; 0 before that. */
  settledCount: number
  settledMs: number
}

export class EventSeries {
  readonly #hostName: string
  readonly #ongoing = new Map<SeriesKey, OngoingSeries>()
  #lastNanos = 0n

  constructor(hostName: string) {
    this.#hostName = hostName
  }

  /** Counts an occurrence at this Unix time. Returns the key of the series when a request should be sent now. */
  record(occurrence: Occurrence, nowMs: number): SeriesKey | undefined {
    const { regarding, type, reason, action } = occurrence
    const key = JSON.stringify([regarding.kind, regarding.namespace, regarding.name, type, reason, action])
    const ongoing = this.#ongoing.get(key)
    if (ongoing !== undefined) {
      ongoing.count++
      ongoing.lastMs = nowMs
      return ongoing.count === 2 ? key : undefined
    }
    if (this.#ongoing.size >= MAX_SERIES && regarding.kind !== NODE) return undefined
    const event = eventOf(occurrence, this.#hostName, this.#uniqueNanos(nowMs))
    this.#ongoing.set(key, { event, count: 1, lastMs: nowMs, settledCount: 0, settledMs: nowMs })
    return key
  }

  /** The request for the present count; undefined when the series has ended. */
  request(key: SeriesKey): EventRequest | undefined {
    const ongoing = this.#ongoing.get(key)
    if (ongoing === undefined) return undefined
    const series = seriesOf(ongoing)
    return series === undefined || ongoing.settledCount === 0
      ? createRequest(ongoing.event, series)
      : repeatRequest(ongoing.event, series)
  }

  /** The request that creates the Event again on a server that no longer has it. */
  recreateRequest(key: SeriesKey): EventRequest | undefined {
    const ongoing = this.#ongoing.get(key)
    return ongoing && createRequest(ongoing.event, seriesOf(ongoing))
  }

  /** Whether it is about a Node: this one. */
  isOfNode(key: SeriesKey): boolean {
    return this.#ongoing.get(key)?.event.regarding.kind === NODE
  }

  /** Number of occurrences; 0 when the series has ended. */
  count(key: SeriesKey): number {
    return this.#ongoing.get(key)?.count ?? 0
  }

  /** Marks the occurrences up to this count as sent, or as given up. */
  settle(key: SeriesKey, count: number, nowMs: number): void {
    const ongoing = this.#ongoing.get(key)
    if (ongoing === undefined) return
    ongoing.settledCount = count
    ongoing.settledMs = nowMs
  }

  /** Drops the series that have ended. Returns the keys of those to send again. Call it every FINISH_MS. */
  sweep(nowMs: number): readonly SeriesKey[] {
    const due: SeriesKey[] = []
    for (const [key, { count, settledCount, lastMs, settledMs }] of this.#ongoing) {
      const isQuiet = nowMs - lastMs > FINISH_MS
      if (isQuiet && count === settledCount) this.#ongoing.delete(key)
      else if (isQuiet || (count > 1 && nowMs - settledMs >= REFRESH_MS)) due.push(key)
    }
    return due
  }

  #uniqueNanos(nowMs: number): bigint {
    const nanos = BigInt(nowMs) * 1_000_000n
    this.#lastNanos = nanos > this.#lastNanos ? nanos : this.#lastNanos + 1n
    return this.#lastNanos
  }
}

function seriesOf({ count, lastMs }: OngoingSeries): Series | undefined {
  return count < 2 ? undefined : { count, lastObservedTime: microTime(lastMs) }
}
