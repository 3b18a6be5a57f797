/**
 * The families of kube-proxy 1.37 and of its client for the API server, and their values from our
 * counts. Names, types, labels and help texts are kube-proxy's own, word for word; a test compares
 * them with a recorded page. kube-proxy shows a family with labels only after its first value, so
 * the samples that are there from the start matter too.
 * @impure
 */
import type { ProbeCounts } from './counts.ts'
import { PROGRAMMING_SECONDS, REQUEST_BYTES, REQUEST_SECONDS, SYNC_SECONDS } from './histogram.ts'
import type { MetricFamilies, MetricsPage } from './page.ts'
import { startTimeSeconds } from './process-page.ts'
import type { RequestCounts } from './request-counts.ts'
import type { CountedPackets, FamilyRules } from './rule-counts.ts'
import type { SyncCounts } from './sync-counts.ts'

/** Families of both modes. */
export const PROXY = {
  conntrackReconcilerDeletedEntries: {
    name: 'kubeproxy_conntrack_reconciler_deleted_entries_total',
    type: 'counter',
    help: '[ALPHA] Cumulative conntrack flows deleted by conntrack reconciler',
    labels: ['ip_family'],
  },
  conntrackReconcilerSyncDuration: {
    name: 'kubeproxy_conntrack_reconciler_sync_duration_seconds',
    type: 'histogram',
    help: '[ALPHA] ReconcileConntrackFlowsLatency latency in seconds',
    labels: ['ip_family'],
    buckets: SYNC_SECONDS,
  },
  networkProgrammingDuration: {
    name: 'kubeproxy_network_programming_duration_seconds',
    type: 'histogram',
    help: '[ALPHA] In Cluster Network Programming Latency in seconds',
    labels: ['ip_family'],
    buckets: PROGRAMMING_SECONDS,
  },
  proxyHealthz: {
    name: 'kubeproxy_proxy_healthz_total',
    type: 'counter',
    help: '[ALPHA] Cumulative proxy healthz HTTP status',
    labels: ['code'],
  },
  proxyLivez: {
    name: 'kubeproxy_proxy_livez_total',
    type: 'counter',
    help: '[ALPHA] Cumulative proxy livez HTTP status',
    labels: ['code'],
  },
  syncProxyRulesDuration: {
    name: 'kubeproxy_sync_proxy_rules_duration_seconds',
    type: 'histogram',
    help: '[ALPHA] SyncProxyRules latency in seconds',
    labels: ['ip_family'],
    buckets: SYNC_SECONDS,
  },
  syncProxyRulesEndpointChangesPending: {
    name: 'kubeproxy_sync_proxy_rules_endpoint_changes_pending',
    type: 'gauge',
    help: '[ALPHA] Pending proxy rules Endpoint changes',
    labels: [],
  },
  syncProxyRulesEndpointChanges: {
    name: 'kubeproxy_sync_proxy_rules_endpoint_changes_total',
    type: 'counter',
    help: '[ALPHA] Cumulative proxy rules Endpoint changes',
    labels: [],
  },
  syncProxyRulesIptablesRestoreFailures: {
    name: 'kubeproxy_sync_proxy_rules_iptables_restore_failures_total',
    type: 'counter',
    help: '[ALPHA] Cumulative proxy iptables restore failures',
    labels: ['ip_family'],
  },
  syncProxyRulesLastQueuedTimestamp: {
    name: 'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds',
    type: 'gauge',
    help: '[ALPHA] The last time a sync of proxy rules was queued',
    labels: ['ip_family'],
  },
  syncProxyRulesLastTimestamp: {
    name: 'kubeproxy_sync_proxy_rules_last_timestamp_seconds',
    type: 'gauge',
    help: '[ALPHA] The last time proxy rules were successfully synced',
    labels: ['ip_family'],
  },
  syncProxyRulesNoLocalEndpoints: {
    name: 'kubeproxy_sync_proxy_rules_no_local_endpoints_total',
    type: 'gauge',
    help: '[ALPHA] Number of services with a Local traffic policy and no endpoints',
    labels: ['ip_family', 'traffic_policy'],
  },
  syncProxyRulesServiceChangesPending: {
    name: 'kubeproxy_sync_proxy_rules_service_changes_pending',
    type: 'gauge',
    help: '[ALPHA] Pending proxy rules Service changes',
    labels: [],
  },
  syncProxyRulesServiceChanges: {
    name: 'kubeproxy_sync_proxy_rules_service_changes_total',
    type: 'counter',
    help: '[ALPHA] Cumulative proxy rules Service changes',
    labels: [],
  },
} satisfies MetricFamilies

/** Families of iptables mode only; kube-proxy in ipvs mode does not have them. */
export const PROXY_IPTABLES = {
  iptablesCtStateInvalidDroppedPackets: {
    name: 'kubeproxy_iptables_ct_state_invalid_dropped_packets_total',
    type: 'counter',
    help: '[ALPHA] packets dropped by iptables to work around conntrack problems',
    labels: [],
  },
  iptablesLocalhostNodeportsAcceptedPackets: {
    name: 'kubeproxy_iptables_localhost_nodeports_accepted_packets_total',
    type: 'counter',
    help: '[ALPHA] Number of packets accepted on nodeports of loopback interface',
    labels: [],
  },
  syncFullProxyRulesDuration: {
    name: 'kubeproxy_sync_full_proxy_rules_duration_seconds',
    type: 'histogram',
    help: '[ALPHA] SyncProxyRules latency in seconds for full resyncs',
    labels: ['ip_family'],
    buckets: SYNC_SECONDS,
  },
  syncPartialProxyRulesDuration: {
    name: 'kubeproxy_sync_partial_proxy_rules_duration_seconds',
    type: 'histogram',
    help: '[ALPHA] SyncProxyRules latency in seconds for partial resyncs',
    labels: ['ip_family'],
    buckets: SYNC_SECONDS,
  },
  syncProxyRulesIptablesLast: {
    name: 'kubeproxy_sync_proxy_rules_iptables_last',
    type: 'gauge',
    help: '[ALPHA] Number of iptables rules written by kube-proxy in last sync',
    labels: ['ip_family', 'table'],
  },
  syncProxyRulesIptablesPartialRestoreFailures: {
    name: 'kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total',
    type: 'counter',
    help: '[ALPHA] Cumulative proxy iptables partial restore failures',
    labels: ['ip_family'],
  },
  syncProxyRulesIptables: {
    name: 'kubeproxy_sync_proxy_rules_iptables_total',
    type: 'gauge',
    help: '[ALPHA] Total number of iptables rules owned by kube-proxy',
    labels: ['ip_family', 'table'],
  },
} satisfies MetricFamilies

/** Families of requests to the API server. */
export const REQUESTS = {
  rateLimiterDuration: {
    name: 'rest_client_rate_limiter_duration_seconds',
    type: 'histogram',
    help: '[ALPHA] Client side rate limiter latency in seconds. Broken down by verb, and host.',
    labels: ['host', 'verb'],
    buckets: REQUEST_SECONDS,
  },
  requestDuration: {
    name: 'rest_client_request_duration_seconds',
    type: 'histogram',
    help: '[ALPHA] Request latency in seconds. Broken down by verb, and host.',
    labels: ['host', 'verb'],
    buckets: REQUEST_SECONDS,
  },
  requestSizeBytes: {
    name: 'rest_client_request_size_bytes',
    type: 'histogram',
    help: '[ALPHA] Request size in bytes. Broken down by verb and host.',
    labels: ['host', 'verb'],
    buckets: REQUEST_BYTES,
  },
  requests: {
    name: 'rest_client_requests_total',
    type: 'counter',
    help: '[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.',
    labels: ['code', 'host', 'method'],
  },
  responseSizeBytes: {
    name: 'rest_client_response_size_bytes',
    type: 'histogram',
    help: '[ALPHA] Response size in bytes. Broken down by verb and host.',
    labels: ['host', 'verb'],
    buckets: REQUEST_BYTES,
  },
} satisfies MetricFamilies

/** Families of `/metrics/slis`. */
const SLIS = {
  healthcheck: {
    name: 'kubernetes_healthcheck',
    type: 'gauge',
    help: '[STABLE] This metric records the result of a single healthcheck.',
    labels: ['name', 'type'],
  },
  healthchecks: {
    name: 'kubernetes_healthchecks_total',
    type: 'counter',
    help: '[STABLE] This metric records the results of all healthcheck.',
    labels: ['name', 'status', 'type'],
  },
  startTime: {
    name: 'process_start_time_seconds',
    type: 'gauge',
    help: '[ALPHA] Start time of the process since unix epoch in seconds.',
    labels: [],
  },
} satisfies MetricFamilies

/** Writes what both modes count. */
export function writeProxy(page: MetricsPage, sync: SyncCounts): void {
  page.value(PROXY.syncProxyRulesServiceChanges, [], sync.serviceChanges)
  page.value(PROXY.syncProxyRulesServiceChangesPending, [], sync.servicesPending)
  page.value(PROXY.syncProxyRulesEndpointChanges, [], sync.sliceChanges)
  page.value(PROXY.syncProxyRulesEndpointChangesPending, [], sync.slicesPending)
  for (const family of sync.families) {
    const counts = sync.byFamily[family]
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

/** Tables of iptables whose rules kube-proxy counts. */
const RULE_TABLES = ['filter', 'nat'] as const

/** Writes what only iptables mode counts. */
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

/** Writes the answers of the health port. */
export function writeProbes(page: MetricsPage, probes: ProbeCounts): void {
  for (const [code, count] of probes.healthz) page.value(PROXY.proxyHealthz, [String(code)], count)
  for (const [code, count] of probes.livez) page.value(PROXY.proxyLivez, [String(code)], count)
}

/** Writes the requests to the API server. */
export function writeRequests(page: MetricsPage, requests: RequestCounts): void {
  for (const { host, method, results, ...counts } of requests.endpoints) {
    for (const [code, count] of results) page.value(REQUESTS.requests, [code, host, method], count)
    page.histogram(REQUESTS.requestDuration, [host, method], counts.seconds)
    page.histogram(REQUESTS.rateLimiterDuration, [host, method], counts.limiterSeconds)
    page.histogram(REQUESTS.requestSizeBytes, [host, method], counts.requestBytes)
    page.histogram(REQUESTS.responseSizeBytes, [host, method], counts.responseBytes)
  }
}

/** Writes the page of `/metrics/slis`. */
export function writeSlis(page: MetricsPage, probes: ProbeCounts): void {
  for (const [name, { succeeded, failed, last }] of probes.checks) {
    page.value(SLIS.healthcheck, [name, 'healthz'], last ? 1 : 0)
    if (failed > 0) page.value(SLIS.healthchecks, [name, 'error', 'healthz'], failed)
    if (succeeded > 0) page.value(SLIS.healthchecks, [name, 'success', 'healthz'], succeeded)
  }
  page.value(SLIS.startTime, [], startTimeSeconds())
}
