/**
 * The metrics of the daemon: its counts, where it reads everything else, and the pages for a
 * scraper. Counts are loaded at the start; everything that writes text is loaded at the first
 * scrape.
 * @impure
 */
import { AuditCounts, EventLoopDelay, ProbeCounts } from './counts.ts'
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
  /** Receives what audits report (`AuditObserver`). */
  readonly auditObserver = {
    ended: (audit: string, durationMs: number, failed: boolean): void => this.audits.ended(audit, durationMs, failed),
    confirmed: (): void => this.sync.markUpToDate(),
  }
  #pendingText: Promise<string> | undefined

  constructor({ sync, requests, sources }: MetricsOptions) {
    this.sync = sync
    this.requests = requests
    this.sources = sources
  }

  /** The page of `/metrics`: text/plain, version 0.0.4. Scrapes at the same time share one page. */
  text(): Promise<string> {
    this.delay.start()
    this.#pendingText ??= this.#text().finally(() => {
      this.#pendingText = undefined
    })
    return this.#pendingText
  }

  /** The page of `/metrics/slis`. */
  async slis(): Promise<string> {
    const { slisText } = await import('./scrape.ts')
    return slisText(this.probes)
  }

  close(): void {
    this.delay.close()
  }

  async #text(): Promise<string> {
    const { metricsText } = await import('./scrape.ts')
    return metricsText(this)
  }
}
