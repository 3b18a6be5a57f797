/**
 * The families of kube-ipvs itself. docs/metrics.md lists them; a test holds the two against each other.
 * What could break: dashboards and alerts name these, so a name or label that changes is a change for every user; and no label may
 * have more values than its help text lets expect.
 */
import { AUDIT_SECONDS, DELAY_SECONDS } from './buckets.ts'
import type { Families } from './family.ts'

export const OWN = {
  build: {
    name: 'kubeipvs_build_info',
    type: 'gauge',
    help: 'Constant 1, labelled with the versions of kube-ipvs, of the Node.js it runs on and of the kernel.',
    labels: ['kernel', 'node_version', 'version'],
  },
  services: {
    name: 'kubeipvs_services',
    type: 'gauge',
    help: 'Services that this node answers for.',
    labels: [],
  },
  conflicts: {
    name: 'kubeipvs_conflicts',
    type: 'gauge',
    help: 'Claims of a Service to an address and port that another Service has.',
    labels: [],
  },
  operations: {
    name: 'kubeipvs_operations_total',
    type: 'counter',
    help: 'Changes of the kernel by table, by what they did (add includes changes in place) and by outcome (success, failure).',
    labels: ['direction', 'outcome', 'table'],
  },
  driftRepaired: {
    name: 'kubeipvs_drift_repaired_total',
    type: 'counter',
    help: 'Items of a table that somebody else had changed and that were put right.',
    labels: ['table'],
  },
  readFailures: {
    name: 'kubeipvs_read_failures_total',
    type: 'counter',
    help: 'Times that a table of the kernel could not be read.',
    labels: ['table'],
  },
  syncFailures: {
    name: 'kubeipvs_sync_failures_total',
    type: 'counter',
    help: 'Passes after which something was not as it shall be, over tables or over rules (part); all of it is tried again.',
    labels: ['part'],
  },
  tableEntries: {
    name: 'kubeipvs_table_entries',
    type: 'gauge',
    help: 'Items of a table that the kernel has, as last read or written.',
    labels: ['table'],
  },
  tableWanted: {
    name: 'kubeipvs_table_wanted_entries',
    type: 'gauge',
    help: 'Items of a table that are wanted. More than there are for minutes means that something fails.',
    labels: ['table'],
  },
  tableWaiting: {
    name: 'kubeipvs_table_waiting_entries',
    type: 'gauge',
    help: 'Items of a table that wait for another table: virtual servers whose rules or firewall are not in place.',
    labels: ['table'],
  },
  setEntries: {
    name: 'kubeipvs_set_entries',
    type: 'gauge',
    help: 'Entries of one of the 34 sets, those that are not empty.',
    labels: ['set'],
  },
  setMaxEntries: {
    name: 'kubeipvs_set_max_entries',
    type: 'gauge',
    help: 'Entries that a set takes before it has to be made larger, for the sets that are not empty.',
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
    help: 'Real servers that nobody wants any more and that keep their connections.',
    labels: [],
  },
  drains: {
    name: 'kubeipvs_drains_finished_total',
    type: 'counter',
    help: 'Drains that ended, because no connection was left (idle) or because time was up (deadline).',
    labels: ['reason'],
  },
  auditDuration: {
    name: 'kubeipvs_audit_duration_seconds',
    type: 'histogram',
    help: 'How long it took to compare all virtual servers, sets or addresses with what they should be, pauses included.',
    labels: ['audit'],
    buckets: AUDIT_SECONDS,
  },
  auditFailures: {
    name: 'kubeipvs_audit_failures_total',
    type: 'counter',
    help: 'Audits that failed. What others change in the table of an audit that keeps failing is not noticed; /healthz stays good.',
    labels: ['audit'],
  },
  netlinkMessages: {
    name: 'kubeipvs_netlink_messages_total',
    type: 'counter',
    help: 'Requests sent to the kernel, by the connection they took.',
    labels: ['connection'],
  },
  netlinkDatagrams: {
    name: 'kubeipvs_netlink_datagrams_total',
    type: 'counter',
    help: 'Datagrams exchanged with the kernel, by connection and direction (in, out).',
    labels: ['connection', 'direction'],
  },
  eventLoopDelay: {
    name: 'kubeipvs_event_loop_delay_seconds',
    type: 'histogram',
    help: 'How long something that was due had to wait for the event loop, asked four times a second from the first scrape on.',
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
    help: 'Connections to a Service through this node, as IPVS counts them. At most as many Services as kubeIPVS.serviceMetricsLimit says.',
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
    help: 'Services with traffic that have no metrics of their own because the limit is reached.',
    labels: [],
  },
  trafficFailures: {
    name: 'kubeipvs_service_read_failures_total',
    type: 'counter',
    help: 'Times that the counters of Services could not be read; the ones from before were given.',
    labels: [],
  },
} satisfies Families
