/**
 * Runs a task on request, one run at a time, no more often than a minimum period, and again at the
 * time that the run returns. Any number of requests during a run cause exactly one more run.
 * @impure
 */
import { CodedError } from '../values/errors.ts'
import type { Clock } from '../values/clock.ts'

export interface PacerOptions {
  /** Minimum time from the end of one run to the start of the next (KubeProxyConfiguration minSyncPeriod). */
  readonly minPeriodMs: () => number
  readonly now: Clock
  /** One run. Resolves to the time of the next run without a request, or undefined. Must not reject. */
  readonly run: (signal: AbortSignal) => Promise<number | undefined>
}

/** The longest timer: setTimeout turns a longer one into 1 ms. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1

export class Pacer {
  readonly #options: PacerOptions
  readonly #abort = new AbortController()
  #timer: NodeJS.Timeout | undefined
  #immediate: NodeJS.Immediate | undefined
  #running: Promise<void> | undefined
  #requested = false
  #resumed = false
  #lastEndMs = Number.NEGATIVE_INFINITY

  constructor(options: PacerOptions) {
    this.#options = options
  }

  /** Asks for a run as soon as the minimum period allows. */
  request(): void {
    this.#requested = true
    if (this.#running === undefined) this.#schedule(0)
  }

  /** Asks for a run that ignores the minimum period, for work that the last run had to postpone. */
  resume(): void {
    this.#resumed = true
    this.request()
  }

  /** Whether another run follows for work that this one has to postpone, or had. */
  get isResumed(): boolean {
    return this.#resumed
  }

  /** Stops for good: aborts the current run and waits for its end. */
  async close(): Promise<void> {
    this.#abort.abort(new CodedError('closed', 'the proxy is stopping'))
    clearTimeout(this.#timer)
    clearImmediate(this.#immediate)
    await this.#running
  }

  #schedule(atMs: number): void {
    if (this.#abort.signal.aborted) return
    const minPeriodMs = this.#options.minPeriodMs()
    const earliestMs = this.#resumed || minPeriodMs === 0 ? 0 : this.#lastEndMs + minPeriodMs
    const dueMs = Math.max(atMs, earliestMs)
    const waitMs = dueMs === 0 ? 0 : dueMs - this.#options.now()
    clearTimeout(this.#timer)
    clearImmediate(this.#immediate)
    // An immediate, not a call: everything that arrived in this turn of the event loop becomes one run.
    if (waitMs <= 0) this.#immediate = setImmediate(() => this.#start())
    else this.#timer = setTimeout(() => this.#start(), Math.min(waitMs, LONGEST_TIMER_MS))
  }

  #start(): void {
    this.#requested = false
    this.#resumed = false
    // The run begins in a microtask, so that a request from its synchronous part already finds it running.
    const begun = Promise.resolve().then(() => this.#options.run(this.#abort.signal))
    this.#running = begun.then((nextMs) => {
      this.#running = undefined
      this.#lastEndMs = this.#options.now()
      if (this.#requested) this.#schedule(0)
      else if (nextMs !== undefined) this.#schedule(nextMs)
    })
  }
}
