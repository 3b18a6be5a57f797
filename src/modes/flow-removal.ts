/**
 * Stale UDP flows of conntrack: their removal some time after the passes that made them, in one
 * list for a burst of changes, and the connection that it needs.
 */
import { openNetfilter } from '../../native/open.ts'
import { ConntrackConnection, type FlowTable } from '../conntrack/connection.ts'
import type { StaleFlows } from '../conntrack/stale-flows.ts'
import { Pacer } from '../sync/pacer.ts'
import { Backoff } from '../values/backoff.ts'
import type { Log } from '../values/log.ts'
import type { Clock } from '../values/clock.ts'

export interface FlowRemovalOptions {
  readonly staleFlows: Pick<StaleFlows, 'pending' | 'remove'>
  readonly now: Clock
  readonly log: Log
}

/**
 * The next list of flows waits for this multiple of the time that the last one took, within these
 * bounds. So stale flows of a small table are removed soon, and a table of a million flows is
 * listed at most once a second.
 */
const PERIOD = { factor: 50, leastMs: 100, mostMs: 1000 }
const RETRY_MS = { firstMs: 1000, maxMs: 30_000 }

export class FlowRemoval {
  readonly #options: FlowRemovalOptions
  readonly #pacer: Pacer
  readonly #backoff = new Backoff(RETRY_MS)
  #periodMs = PERIOD.leastMs

  constructor(options: FlowRemovalOptions) {
    this.#options = options
    this.#pacer = new Pacer({ minPeriodMs: () => this.#periodMs, now: options.now, run: (signal) => this.#run(signal) })
  }

  /** A pass has ended: flows of what it changed may be removed now. */
  passed(): void {
    if (this.#options.staleFlows.pending > 0) this.#pacer.request()
  }

  close(): Promise<void> {
    return this.#pacer.close()
  }

  /** Returns the time of the next try after a failure. */
  async #run(signal: AbortSignal): Promise<number | undefined> {
    const { staleFlows, now, log } = this.#options
    const startedMs = now()
    // Passes that follow a failure do not shorten its wait.
    let retryMs = 0
    try {
      const { frontends, deleted, error } = await staleFlows.remove(signal)
      if (deleted > 0) log.info('Removed stale UDP flows', { frontends, deleted })
      if (error === undefined) {
        this.#backoff.reset()
        return undefined
      }
      log.warn('Cannot remove stale UDP flows; retrying', { error })
      retryMs = this.#backoff.next()
      return now() + retryMs
    } catch (error) {
      if (!signal.aborted) log.error('Removing stale UDP flows failed', { error })
      return undefined
    } finally {
      const periodMs = Math.min(PERIOD.mostMs, Math.max(PERIOD.leastMs, PERIOD.factor * (now() - startedMs)))
      this.#periodMs = Math.max(periodMs, retryMs)
    }
  }
}

/**
 * A conntrack connection that is opened at its first use, and again after an opening that failed:
 * most nodes never have a stale UDP flow, and a kernel without ctnetlink does not need it.
 */
export class LateConntrack implements FlowTable {
  #opening: Promise<ConntrackConnection> | undefined

  async findFlows(...args: Parameters<FlowTable['findFlows']>): ReturnType<FlowTable['findFlows']> {
    return (await this.#open()).findFlows(...args)
  }

  async deleteFlows(...args: Parameters<FlowTable['deleteFlows']>): ReturnType<FlowTable['deleteFlows']> {
    return (await this.#open()).deleteFlows(...args)
  }

  close(): void {
    this.#opening?.then(
      (connection) => connection.close(),
      () => undefined,
    )
  }

  #open(): Promise<ConntrackConnection> {
    this.#opening ??= this.#tryOpening()
    return this.#opening
  }

  async #tryOpening(): Promise<ConntrackConnection> {
    try {
      return await ConntrackConnection.open(openNetfilter())
    } catch (error) {
      this.#opening = undefined
      throw error
    }
  }
}
