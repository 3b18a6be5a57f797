/**
 * How long the event loop keeps others waiting: a timer that says how late it is.
 * What could break: it wakes the process four times a second, so it begins with the first scrape; nobody who does not scrape
 * pays for it. As it asks at fixed times, a stretch of work is seen as often as anything else would have met it.
 */
import { DELAY_SECONDS } from './buckets.ts'
import { Histogram } from './histogram.ts'

const PERIOD_MS = 250

export class EventLoopDelay {
  readonly seconds = new Histogram(DELAY_SECONDS)
  #timer: NodeJS.Timeout | undefined
  #dueMs = 0

  /** Begins, once. */
  start(): void {
    if (this.#timer !== undefined) return
    this.#dueMs = performance.now() + PERIOD_MS
    this.#timer = setTimeout(() => this.#tick(), PERIOD_MS).unref()
  }

  close(): void {
    clearTimeout(this.#timer)
  }

  #tick(): void {
    const nowMs = performance.now()
    // Timers have whole milliseconds and may come up to one early.
    this.seconds.observe(Math.max(0, nowMs - this.#dueMs) / 1000)
    this.#dueMs = nowMs + PERIOD_MS
    this.#timer?.refresh()
  }
}
