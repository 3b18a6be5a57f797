/**
 * The metrics of the daemon: what is counted while it runs, and the pages that a scrape gets.
 * What could break: only what counts is loaded at a start; all that makes text is loaded at the first scrape.
 */
import { AuditCounts } from './audit-counts.ts'
import { EventLoopDelay } from './event-loop-delay.ts'
import { ProbeCounts } from './probe-counts.ts'
import type { RequestCounts } from './request-counts.ts'
import type { Sources } from './sources.ts'
import type { SyncCounts } from './sync-counts.ts'

export interface MetricsOptions {
  readonly sync: SyncCounts
  readonly requests: RequestCounts
  readonly sources: Sources
}

export class Metrics {
  readonly sync: SyncCounts
  readonly requests: RequestCounts
  readonly audits = new AuditCounts()
  readonly probes = new ProbeCounts()
  readonly delay = new EventLoopDelay()
  readonly sources: Sources
  /** What hears of audits (`AuditObserver`). */
  readonly auditObserver = {
    ended: (audit: string, durationMs: number, failed: boolean): void => this.audits.ended(audit, durationMs, failed),
    looked: (): void => this.sync.looked(),
  }
  #under: Promise<string> | undefined

  constructor({ sync, requests, sources }: MetricsOptions) {
    this.sync = sync
    this.requests = requests
    this.sources = sources
  }

  /** The page of `/metrics`: text/plain, version 0.0.4. Who asks while one is being made gets the same. */
  text(): Promise<string> {
    this.delay.start()
    this.#under ??= this.#text().finally(() => {
      this.#under = undefined
    })
    return this.#under
  }

  /** The page of `/metrics/slis`. */
  async slis(): Promise<string> {
    const { slisText } = await import('./pages.ts')
    return slisText(this.probes)
  }

  close(): void {
    this.delay.close()
  }

  async #text(): Promise<string> {
    const { metricsText } = await import('./pages.ts')
    return metricsText(this)
  }
}
