/**
 * The pages put together.
 * What could break: nothing here is loaded before the first scrape; whoever imports it at a start makes the start slower.
 */
import type { AuditCounts } from './audit-counts.ts'
import type { EventLoopDelay } from './event-loop-delay.ts'
import { writeCounts, writeOwn, writeTraffic } from './own-page.ts'
import { MetricsPage } from './page.ts'
import type { ProbeCounts } from './probe-counts.ts'
import { writeKubernetes, writeProcess } from './process-page.ts'
import { writeProbes, writeProxy, writeRequests, writeRules, writeSlis } from './proxy-page.ts'
import type { RequestCounts } from './request-counts.ts'
import type { Sources } from './sources.ts'
import type { SyncCounts } from './sync-counts.ts'

/** All that `/metrics` tells. */
export interface Counted {
  readonly sync: SyncCounts
  readonly requests: RequestCounts
  readonly probes: ProbeCounts
  readonly audits: AuditCounts
  readonly delay: EventLoopDelay
  readonly sources: Sources
}

export async function metricsText(metrics: Counted): Promise<string> {
  const { sync, requests, probes, audits, delay, sources } = metrics
  const page = new MetricsPage()
  // First what takes time, so that all the rest is of one moment.
  await writeTraffic(page, sources.traffic)
  const packets = await sources.rules?.packets()
  await writeProcess(page)
  writeKubernetes(page, sources.featureGates)
  writeProxy(page, sync)
  if (sources.rules !== undefined) writeRules(page, sources.rules.families, packets)
  writeProbes(page, probes)
  writeRequests(page, requests)
  writeOwn(page, sources)
  writeCounts(page, sync, audits, delay)
  return page.text()
}

export function slisText(probes: ProbeCounts): string {
  const page = new MetricsPage()
  writeSlis(page, probes)
  return page.text()
}
