/**
 * The families of kube-proxy 1.36, word for word as it describes them.
 * What could break: everything here is held against kube-proxy's own page by a test; nothing is ours to improve.
 */
import { PROGRAMMING_SECONDS, SYNC_SECONDS } from './buckets.ts'
import type { Families } from './family.ts'

/** Both modes set these. */
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
} satisfies Families

/** Only iptables mode sets these: kube-proxy in ipvs mode does not have them. */
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
} satisfies Families
