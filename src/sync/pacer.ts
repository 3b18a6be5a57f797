/**
 * Runs one thing at a time, at once when asked, never more often than a minimum period, and again when it says so.
 * What could break: requests that come while a run is on make one more run, not none and not many.
 * @impure
 */
import { CodedError } from '../values/errors.ts'
import type { Clock } from '../values/clock.ts'

export interface PacerOptions {
  /** At least this long from the end of one run to the start of the next (KubeProxyConfiguration minSyncPeriod). */
  readonly minPeriodMs: () => number
  readonly now: Clock
  /** One run. Resolves to when it wants to run again without being asked, or undefined. Must not reject. */
  readonly run: (signal: AbortSignal) => Promise<number | undefined>
}

/** A timer may not be longer than this (setTimeout turns a longer one into 1 ms). */
const LONGEST_TIMER_MS = 2 ** 31 - 1

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

  /** Asks for a run as soon as it may be. */
  request(): void {
    this.#requested = true
    if (this.#running === undefined) this.#schedule(0)
  }

  /** What the last run had to leave can be done now: asks for a run for which the minimum period does not count. */
  resume(): void {
    this.#resumed = true
    this.request()
  }

  /** Stops for good: the run that is on is aborted and waited for. */
  async close(): Promise<void> {
    this.#abort.abort(new CodedError('closed', 'the proxy is stopping'))
    clearTimeout(this.#timer)
    clearImmediate(this.#immediate)
    await this.#running
  }

  #schedule(atMs: number): void {
    if (this.#abort.signal.aborted) return
    const now = this.#options.now()
    const earliestMs = this.#resumed ? 0 : this.#lastEndMs + this.#options.minPeriodMs()
    const waitMs = Math.max(atMs, earliestMs) - now
    clearTimeout(this.#timer)
    clearImmediate(this.#immediate)
    // An immediate, not a call: everything that arrived in this turn of the event loop becomes one run.
    if (waitMs <= 0) this.#immediate = setImmediate(() => this.#start())
    else this.#timer = setTimeout(() => this.#start(), Math.min(waitMs, LONGEST_TIMER_MS))
  }

  #start(): void {
    this.#requested = false
    this.#resumed = false
    // The run begins in a turn of its own, so that a request made in its first stretch already finds it running.
    const begun = Promise.resolve().then(() => this.#options.run(this.#abort.signal))
    this.#running = begun.then((nextMs) => {
      this.#running = undefined
      this.#lastEndMs = this.#options.now()
      if (this.#requested) this.#schedule(0)
      else if (nextMs !== undefined) this.#schedule(nextMs)
    })
  }
}
