/**
 * The small counts of the daemon: audits, answers to health probes, and the delay of the event
 * loop. Loaded at the start, read by a scrape.
 * @impure
 */
import { AUDIT_SECONDS, DELAY_SECONDS, Histogram } from './histogram.ts'

/** Durations and failures of audits. The name of an audit is a label; there are a handful of audits. */
export class AuditCounts {
  readonly seconds = new Map<string, Histogram>()
  readonly failures = new Map<string, number>()

  /** Counts one finished round of an audit. */
  ended(audit: string, durationMs: number, failed: boolean): void {
    let seconds = this.seconds.get(audit)
    if (seconds === undefined) {
      seconds = new Histogram(AUDIT_SECONDS)
      this.seconds.set(audit, seconds)
      this.failures.set(audit, 0)
    }
    if (failed) this.failures.set(audit, (this.failures.get(audit) ?? 0) + 1)
    else seconds.observe(durationMs / 1000)
  }
}

/**
 * Answers of the health port, and the checks of the metrics port (`/metrics/slis`). Status codes
 * and names become labels, so only values that the servers choose may be counted here, never
 * anything that a client sent.
 */
export class ProbeCounts {
  /** Answers of the health port by status code. */
  readonly healthz = new Map<number, number>()
  readonly livez = new Map<number, number>()
  /** Results of the metrics port's checks by name. */
  readonly checks = new Map<string, { succeeded: number; failed: number; last: boolean }>()

  /** Counts one answer of the health port to `/healthz` or `/livez`. */
  answered(path: 'healthz' | 'livez', status: number): void {
    this[path].set(status, (this[path].get(status) ?? 0) + 1)
  }

  /** Counts one check of the metrics port's /healthz, for example `ping`. */
  checked(name: string, passed: boolean): void {
    const before = this.checks.get(name) ?? { succeeded: 0, failed: 0, last: passed }
    before.last = passed
    if (passed) before.succeeded++
    else before.failed++
    this.checks.set(name, before)
  }

  /** Serves `DELETE /metrics/slis`. */
  resetChecks(): void {
    this.checks.clear()
  }
}

const PERIOD_MS = 2000

/**
 * Measures how late a timer fires, every two seconds. It starts with the first scrape, because it
 * wakes the process. The period is fixed, so a long task delays the timer with the same probability
 * as it delays any other event.
 */
export class EventLoopDelay {
  readonly seconds = new Histogram(DELAY_SECONDS)
  #timer: NodeJS.Timeout | undefined
  #dueMs = 0

  /** Starts the timer; further calls do nothing. */
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
    // Node's timers count whole milliseconds and may fire up to one early.
    this.seconds.observe(Math.max(0, nowMs - this.#dueMs) / 1000)
    this.#dueMs = nowMs + PERIOD_MS
    this.#timer?.refresh()
  }
}
