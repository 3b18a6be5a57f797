/**
 * kube-proxy's own families and those of its client for the API server, from our counts.
 * What could break: which samples are there from the start. kube-proxy shows a family with labels only after its first value.
 */
import type { MetricsPage } from './page.ts'
import type { ProbeCounts } from './probe-counts.ts'
import { REQUESTS, SLIS } from './process-families.ts'
import { startTimeSeconds } from './process-page.ts'
import { PROXY, PROXY_IPTABLES } from './proxy-families.ts'
import type { RequestCounts } from './request-counts.ts'
import type { CountedPackets, FamilyRules } from './rule-counts.ts'
import type { SyncCounts } from './sync-counts.ts'

export function writeProxy(page: MetricsPage, sync: SyncCounts): void {
  page.value(PROXY.syncProxyRulesServiceChanges, [], sync.serviceChanges)
  page.value(PROXY.syncProxyRulesServiceChangesPending, [], sync.servicesPending)
  page.value(PROXY.syncProxyRulesEndpointChanges, [], sync.sliceChanges)
  page.value(PROXY.syncProxyRulesEndpointChangesPending, [], sync.slicesPending)
  for (const family of sync.families) {
    const counts = sync.of[family]
    page.histogram(PROXY.syncProxyRulesDuration, [family], counts.syncSeconds)
    page.histogram(PROXY.networkProgrammingDuration, [family], counts.programmingSeconds)
    page.histogram(PROXY.conntrackReconcilerSyncDuration, [family], counts.conntrackSeconds)
    page.value(PROXY.conntrackReconcilerDeletedEntries, [family], counts.deletedFlows)
    page.value(PROXY.syncProxyRulesIptablesRestoreFailures, [family], counts.restoreFailures)
    if (counts.lastQueuedMs > 0)
      page.value(PROXY.syncProxyRulesLastQueuedTimestamp, [family], counts.lastQueuedMs / 1000)
    if (counts.lastSyncedMs > 0) page.value(PROXY.syncProxyRulesLastTimestamp, [family], counts.lastSyncedMs / 1000)
    for (const policy of ['external', 'internal'] as const)
      page.value(PROXY.syncProxyRulesNoLocalEndpoints, [family, policy], sync.withoutLocalEndpoints(family, policy))
  }
}

/** Tables that kube-proxy counts the rules of. */
const RULE_TABLES = ['filter', 'nat'] as const

/** What only iptables mode has. */
export function writeRules(
  page: MetricsPage,
  families: readonly FamilyRules[],
  packets: CountedPackets | undefined,
): void {
  for (const { family, counts, written, owned } of families) {
    page.histogram(PROXY_IPTABLES.syncFullProxyRulesDuration, [family], counts.fullSeconds)
    page.histogram(PROXY_IPTABLES.syncPartialProxyRulesDuration, [family], counts.partialSeconds)
    page.value(PROXY_IPTABLES.syncProxyRulesIptablesPartialRestoreFailures, [family], counts.partialFailures)
    const [last, all] = [written(), owned()]
    for (const table of RULE_TABLES) {
      page.value(PROXY_IPTABLES.syncProxyRulesIptablesLast, [family, table], last.get(table) ?? 0)
      page.value(PROXY_IPTABLES.syncProxyRulesIptables, [family, table], all.get(table) ?? 0)
    }
  }
  if (packets === undefined) return
  page.value(PROXY_IPTABLES.iptablesCtStateInvalidDroppedPackets, [], packets.invalidDropped)
  page.value(PROXY_IPTABLES.iptablesLocalhostNodeportsAcceptedPackets, [], packets.loopbackAccepted)
}

export function writeProbes(page: MetricsPage, probes: ProbeCounts): void {
  for (const [code, count] of probes.healthz) page.value(PROXY.proxyHealthz, [String(code)], count)
  for (const [code, count] of probes.livez) page.value(PROXY.proxyLivez, [String(code)], count)
}

export function writeRequests(page: MetricsPage, requests: RequestCounts): void {
  for (const { host, method, results, ...counts } of requests.endpoints) {
    for (const [code, count] of results) page.value(REQUESTS.requests, [code, host, method], count)
    page.histogram(REQUESTS.requestDuration, [host, method], counts.seconds)
    page.histogram(REQUESTS.rateLimiterDuration, [host, method], counts.limiterSeconds)
    page.histogram(REQUESTS.requestSizeBytes, [host, method], counts.requestBytes)
    page.histogram(REQUESTS.responseSizeBytes, [host, method], counts.responseBytes)
  }
}

/** `/metrics/slis` */
export function writeSlis(page: MetricsPage, probes: ProbeCounts): void {
  for (const [name, { succeeded, failed, last }] of probes.checks) {
    page.value(SLIS.healthcheck, [name, 'healthz'], last ? 1 : 0)
    if (failed > 0) page.value(SLIS.healthchecks, [name, 'error', 'healthz'], failed)
    if (succeeded > 0) page.value(SLIS.healthchecks, [name, 'success', 'healthz'], succeeded)
  }
  page.value(SLIS.startTime, [], startTimeSeconds())
}
