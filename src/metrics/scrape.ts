/**
 * The pages of one scrape. This file and all *-page files are loaded at the first scrape, not at
 * the start: import them only from here, and this file only dynamically.
 * @impure
 */
import type { AuditCounts, EventLoopDelay, ProbeCounts } from './counts.ts'
import { writeCounts, writeOwn, writeTraffic } from './own-page.ts'
import { MetricsPage } from './page.ts'
import { writeKubernetes, writeProcess } from './process-page.ts'
import { writeProbes, writeProxy, writeRequests, writeRules, writeSlis } from './proxy-page.ts'
import type { RequestCounts } from './request-counts.ts'
import type { Sources } from './sources.ts'
import type { SyncCounts } from './sync-counts.ts'

/** Everything that `/metrics` prints. */
export interface ScrapeInput {
  readonly sync: SyncCounts
  readonly requests: RequestCounts
  readonly probes: ProbeCounts
  readonly audits: AuditCounts
  readonly delay: EventLoopDelay
  readonly sources: Sources
}

/** The page of `/metrics`. */
export async function metricsText(input: ScrapeInput): Promise<string> {
  const { sync, requests, probes, audits, delay, sources } = input
  const page = new MetricsPage()
  // Values that wait for the kernel are read first, so that all others are from one moment.
  await writeTraffic(page, sources.traffic)
  const packets = await sources.rules?.packets()
  writeProcess(page)
  writeKubernetes(page, sources.featureGates())
  writeProxy(page, sync)
  if (sources.rules !== undefined) writeRules(page, sources.rules.families, packets)
  writeProbes(page, probes)
  writeRequests(page, requests)
  writeOwn(page, sources)
  writeCounts(page, sync, audits, delay)
  return page.text()
}

/** The page of `/metrics/slis`. */
export function slisText(probes: ProbeCounts): string {
  const page = new MetricsPage()
  writeSlis(page, probes)
  return page.text()
}
