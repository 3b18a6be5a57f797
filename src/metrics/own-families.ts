/**
 * The metrics of kube-ipvs itself. docs/metrics.md lists them; a test compares both. Dashboards and
 * alerts refer to names and labels, so changing one is a breaking change.
 */
import { AUDIT_SECONDS, DELAY_SECONDS } from './histogram.ts'
import type { MetricFamilies } from './page.ts'

export const OWN = {
  build: {
    name: 'kubeipvs_build_info',
    type: 'gauge',
    help: 'Constant 1, labelled with the versions of kube-ipvs, Node.js and the kernel.',
    labels: ['kernel', 'node_version', 'version'],
  },
  mode: {
    name: 'kubeipvs_mode',
    type: 'gauge',
    help: 'Constant 1, labelled with the configured mode, the active mode and the reason for a difference: ipvs-missing, ipset-missing, set-match-missing, or empty.',
    labels: ['active', 'configured', 'reason'],
  },
  services: {
    name: 'kubeipvs_services',
    type: 'gauge',
    help: 'Services that this node serves.',
    labels: [],
  },
  conflicts: {
    name: 'kubeipvs_conflicts',
    type: 'gauge',
    help: 'Addresses and ports that a Service claims but another Service already owns.',
    labels: [],
  },
  roomUsed: {
    name: 'kubeipvs_room_used',
    type: 'gauge',
    help: 'What all Services take of the room of this node, in real servers: a frontend counts as five at least, and in iptables mode each endpoint of a port as five.',
    labels: [],
  },
  roomLimit: {
    name: 'kubeipvs_room_limit',
    type: 'gauge',
    help: 'What all Services together may take of the room of this node, in real servers (kubeIPVS.maxRealServers).',
    labels: [],
  },
  frontendsLeftOut: {
    name: 'kubeipvs_frontends_left_out',
    type: 'gauge',
    help: 'Frontends (address, port and protocol) that are not served because their namespace has its share of the room of this node.',
    labels: [],
  },
  servicesShort: {
    name: 'kubeipvs_services_left_out',
    type: 'gauge',
    help: 'Services of which not all frontends are served because their namespace has its share of the room of this node.',
    labels: [],
  },
  operations: {
    name: 'kubeipvs_operations_total',
    type: 'counter',
    help: 'Operations on a kernel table, by direction (add, which includes changes in place, or remove) and outcome (success, failure).',
    labels: ['direction', 'outcome', 'table'],
  },
  driftRepaired: {
    name: 'kubeipvs_drift_repaired_total',
    type: 'counter',
    help: 'Items of a kernel table that another program had changed and kube-ipvs has repaired.',
    labels: ['table'],
  },
  rivalWrites: {
    name: 'kubeipvs_rival_writes_total',
    type: 'counter',
    help: 'Repairs of items of a kernel table that were repaired three times or more, each within a minute of the repair before: another program keeps writing them.',
    labels: ['table'],
  },
  readFailures: {
    name: 'kubeipvs_read_failures_total',
    type: 'counter',
    help: 'Failed attempts to read a kernel table.',
    labels: ['table'],
  },
  syncFailures: {
    name: 'kubeipvs_sync_failures_total',
    type: 'counter',
    help: 'Sync passes that left something unapplied, by part (tables or rules). Failed items are retried.',
    labels: ['part'],
  },
  tableEntries: {
    name: 'kubeipvs_table_entries',
    type: 'gauge',
    help: 'Items in a kernel table, as last read or written.',
    labels: ['table'],
  },
  tableWanted: {
    name: 'kubeipvs_table_wanted_entries',
    type: 'gauge',
    help: 'Items that a kernel table should have. If it exceeds kubeipvs_table_entries for minutes, something fails.',
    labels: ['table'],
  },
  tableWaiting: {
    name: 'kubeipvs_table_waiting_entries',
    type: 'gauge',
    help: 'Items of a kernel table that wait for another table: virtual servers whose rules or source ranges are not in place yet.',
    labels: ['table'],
  },
  setEntries: {
    name: 'kubeipvs_set_entries',
    type: 'gauge',
    help: 'Entries in an ipset. Only sets that are not empty are listed.',
    labels: ['set'],
  },
  setMaxEntries: {
    name: 'kubeipvs_set_max_entries',
    type: 'gauge',
    help: 'Entries that an ipset can hold before it has to be enlarged. Only sets that are not empty are listed.',
    labels: ['set'],
  },
  realServers: {
    name: 'kubeipvs_real_servers',
    type: 'gauge',
    help: 'Real servers of all virtual servers.',
    labels: [],
  },
  realServersDraining: {
    name: 'kubeipvs_real_servers_draining',
    type: 'gauge',
    help: 'Real servers that are no longer endpoints of a Service and are kept until their connections end.',
    labels: [],
  },
  realServersStarting: {
    name: 'kubeipvs_real_servers_starting',
    type: 'gauge',
    help: 'Real servers whose weight still rises to its full value (annotation kube-ipvs.io/slow-start).',
    labels: [],
  },
  localSocket: {
    name: 'kubeipvs_local_socket_open',
    type: 'gauge',
    help: 'Whether the local socket, at which commands ask this program, is open; absent where kubeIPVS.socket is empty.',
    labels: [],
  },
  localAnswers: {
    name: 'kubeipvs_local_answers_total',
    type: 'counter',
    help: 'Answers to commands at the local socket, by their HTTP status.',
    labels: ['code'],
  },
  slowStarts: {
    name: 'kubeipvs_slow_starts_total',
    type: 'counter',
    help: 'Slow starts of real servers that have begun.',
    labels: [],
  },
  serviceChoices: {
    name: 'kubeipvs_services_with_annotation',
    type: 'gauge',
    help: 'Services for which an annotation of kube-ipvs is in force, by its name without kube-ipvs.io/. A Service with a wrong value is not counted.',
    labels: ['annotation'],
  },
  labelledNodes: {
    name: 'kubeipvs_labelled_nodes',
    type: 'gauge',
    help: 'Nodes with a label that a rule of kube-ipvs.io/weights names, as far as their labels are known; 0 while no rule names a label.',
    labels: [],
  },
  drains: {
    name: 'kubeipvs_drains_finished_total',
    type: 'counter',
    help: 'Finished drains, by reason: no connection was left (idle) or the drain deadline passed (deadline).',
    labels: ['reason'],
  },
  auditDuration: {
    name: 'kubeipvs_audit_duration_seconds',
    type: 'histogram',
    help: 'Time to compare all virtual servers, sets or addresses with the desired state, pauses included.',
    labels: ['audit'],
    buckets: AUDIT_SECONDS,
  },
  auditFailures: {
    name: 'kubeipvs_audit_failures_total',
    type: 'counter',
    help: 'Audits that failed before completing. While an audit keeps failing, changes by other programs to its table go unnoticed; /healthz does not report it.',
    labels: ['audit'],
  },
  netlinkMessages: {
    name: 'kubeipvs_netlink_messages_total',
    type: 'counter',
    help: 'Requests sent to the kernel, by netlink connection.',
    labels: ['connection'],
  },
  netlinkDatagrams: {
    name: 'kubeipvs_netlink_datagrams_total',
    type: 'counter',
    help: 'Datagrams exchanged with the kernel, by netlink connection and direction (in, out).',
    labels: ['connection', 'direction'],
  },
  eventLoopDelay: {
    name: 'kubeipvs_event_loop_delay_seconds',
    type: 'histogram',
    help: 'Delay of a timer by the event loop, measured every two seconds from the first scrape on.',
    labels: [],
    buckets: DELAY_SECONDS,
  },
  heapUsed: {
    name: 'kubeipvs_heap_used_bytes',
    type: 'gauge',
    help: 'Memory in use by JavaScript objects.',
    labels: [],
  },
  serviceConnections: {
    name: 'kubeipvs_service_connections_total',
    type: 'counter',
    help: 'Connections to a Service through this node, as IPVS counts them. The number of Services listed is limited by kubeIPVS.serviceMetricsLimit.',
    labels: ['namespace', 'service'],
  },
  servicePackets: {
    name: 'kubeipvs_service_packets_total',
    type: 'counter',
    help: 'Packets to (in) and from (out) a Service through this node, as IPVS counts them.',
    labels: ['direction', 'namespace', 'service'],
  },
  serviceBytes: {
    name: 'kubeipvs_service_bytes_total',
    type: 'counter',
    help: 'Bytes to (in) and from (out) a Service through this node, as IPVS counts them.',
    labels: ['direction', 'namespace', 'service'],
  },
  servicesLeftOut: {
    name: 'kubeipvs_services_without_metrics',
    type: 'gauge',
    help: 'Services with traffic that are not listed because kubeIPVS.serviceMetricsLimit is reached.',
    labels: [],
  },
  trafficFailures: {
    name: 'kubeipvs_service_read_failures_total',
    type: 'counter',
    help: 'Failed attempts to read the traffic counters of Services; the previous values are shown instead.',
    labels: [],
  },
} satisfies MetricFamilies
