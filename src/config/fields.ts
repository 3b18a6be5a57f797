/**
 * The table of configuration fields, the only place where a field is described. A row has its kind,
 * its default, what a changed value means to a running proxy in ipvs and in iptables mode, its text
 * for the reference and `--help`, its rule and its flag. The paths are those of
 * KubeProxyConfiguration v1alpha1; `kubeIPVS` is ours (`own-fields.ts`).
 *
 * Derived from it: the types (`types.ts`), the reading of files (`schema.ts`), defaults and flags
 * (`complete.ts`, `start/field-flags.ts`, `cli/help.ts`), reload
 * and "without effect" (`changes.ts`), writing (`write.ts`), rules of single values
 * (`validate.ts`), and docs/configuration.md (`dev/configuration-reference.ts`). A field that is
 * live also needs a line in `daemon/live-settings.ts`, or that file does not compile. kube-proxy's
 * oddities that concern several fields are functions outside the table, in `complete.ts` and
 * `validate.ts`.
 */
import { KUBE_PROXY_RELEASE } from '../values/well-known.ts'
import {
  field,
  IN_IPTABLES_MODE,
  IN_IPVS_MODE,
  LIVE,
  LIVE_BUT_FOR_RULES,
  LIVE_IN_IPTABLES_MODE,
  LIVE_IN_IPVS_MODE,
  NO_EFFECT,
  RESTART,
} from './field.ts'
import { LOGGING_FIELDS } from './logging-fields.ts'
import { OWN_FIELDS } from './own-fields.ts'

const HOUR_MS = 3_600_000
const SYNC_PERIOD = 'Longest time until a difference that the kernel does not announce is found and repaired.'
const MIN_SYNC_PERIOD = 'Shortest time between two passes; 0 means that every change starts one at once.'
const OF_NFTABLES_MODE = { doc: 'For nftables mode, which kube-ipvs does not have.' }
const OF_WINDOWS = { doc: 'For Windows only.' }

/** In the order of the reference and of help. */
export const FIELDS = {
  mode: field('text', '', LIVE, {
    doc: 'How Services are programmed into the kernel.',
    defaultText: 'iptables; ipvs with --manifests',
    words: ['ipvs', 'iptables'],
    flag: { name: 'proxy-mode', group: 'first', value: 'MODE' },
  }),
  hostnameOverride: field('text', '', RESTART, {
    doc: 'Name of the Node object of this machine.',
    defaultText: 'the host name',
    flag: { name: 'hostname-override', group: 'first', value: 'NAME', appliesWithFile: true },
  }),

  'ipvs.scheduler': field('text', '', IN_IPVS_MODE, {
    doc: 'Kernel scheduler of virtual servers.',
    defaultText: 'rr',
    flag: { name: 'ipvs-scheduler', group: 'modes', value: 'NAME' },
  }),
  // Also read in iptables mode, which removes what ipvs mode left.
  'ipvs.excludeCIDRs': field('texts', [], RESTART, {
    doc: 'Virtual servers with an address in one of these ranges are never removed.',
    rule: 'cidrs',
    flag: { name: 'ipvs-exclude-cidrs', group: 'modes' },
  }),
  'ipvs.strictARP': field('boolean', false, IN_IPVS_MODE, {
    doc: 'Set arp_ignore to 1 and arp_announce to 2.',
    flag: { name: 'ipvs-strict-arp', group: 'modes' },
  }),
  'ipvs.syncPeriod': field('duration', 30_000, LIVE_IN_IPVS_MODE, {
    doc: SYNC_PERIOD,
    rule: 'positive',
    flag: { name: 'ipvs-sync-period', group: 'modes' },
  }),
  'ipvs.minSyncPeriod': field('duration', 0, LIVE_IN_IPVS_MODE, {
    doc: MIN_SYNC_PERIOD,
    rule: 'notNegative',
    ruleText: '0 or more, at most syncPeriod',
    flag: { name: 'ipvs-min-sync-period', group: 'modes', default: '1s' },
  }),
  'ipvs.tcpTimeout': field('duration', 0, IN_IPVS_MODE, {
    doc: 'Timeout of idle TCP connections through IPVS; 0 keeps the value of the kernel.',
    rule: 'notNegative',
    flag: { name: 'ipvs-tcp-timeout', group: 'modes' },
  }),
  'ipvs.tcpFinTimeout': field('duration', 0, IN_IPVS_MODE, {
    doc: 'Timeout of TCP connections through IPVS after a FIN; 0 keeps the value of the kernel.',
    rule: 'notNegative',
    flag: { name: 'ipvs-tcpfin-timeout', group: 'modes' },
  }),
  'ipvs.udpTimeout': field('duration', 0, IN_IPVS_MODE, {
    doc: 'Timeout of UDP flows through IPVS; 0 keeps the value of the kernel.',
    rule: 'notNegative',
    flag: { name: 'ipvs-udp-timeout', group: 'modes' },
  }),

  'iptables.masqueradeAll': field('boolean', false, RESTART, {
    doc: 'Masquerade all traffic to ClusterIPs, in both modes.',
    flag: { name: 'masquerade-all', group: 'modes' },
  }),
  'iptables.masqueradeBit': field('int32', 14, RESTART, {
    doc: 'Bit of the packet mark that requests masquerading, in both modes.',
    rule: [0, 31],
    flag: { name: 'iptables-masquerade-bit', group: 'modes' },
  }),
  'iptables.localhostNodePorts': field('boolean', true, IN_IPTABLES_MODE, {
    doc: 'Node ports answer on 127.0.0.1.',
    flag: { name: 'iptables-localhost-nodeports', group: 'modes' },
  }),
  'iptables.syncPeriod': field('duration', 30_000, LIVE_IN_IPTABLES_MODE, {
    doc: SYNC_PERIOD,
    rule: 'positive',
    flag: { name: 'iptables-sync-period', group: 'modes' },
  }),
  'iptables.minSyncPeriod': field('duration', 1_000, LIVE_IN_IPTABLES_MODE, {
    doc: MIN_SYNC_PERIOD,
    rule: 'notNegative',
    ruleText: '0 or more, at most syncPeriod',
    flag: { name: 'iptables-min-sync-period', group: 'modes' },
  }),

  // Only some gates have an effect: changes.ts checks each by its name.
  featureGates: field('gates', {}, RESTART, {
    doc: 'Feature gates of Kubernetes, by name. Those with an effect here: AllowServiceExternalIPs, LoggingAlphaOptions, LoggingBetaOptions.',
    written: 'unlessDefault',
    flag: { name: 'feature-gates', group: 'modes' },
  }),

  bindAddress: field('address', '0.0.0.0', RESTART, {
    doc: 'Decides the primary family, and is the node IP of its family unless it is 0.0.0.0 or ::. Nothing is bound to it.',
    rule: 'address',
    flag: { name: 'bind-address', group: 'addresses' },
  }),
  nodePortAddresses: field('texts', [], LIVE, {
    doc: 'Addresses of the node that node ports answer on: ranges, and the words primary (those of the Node object), localhost (127.0.0.0/8 and ::1, in iptables mode only) and all.',
    defaultText: 'all',
    ruleText: 'CIDRs, and the words primary, localhost, all',
    flag: { name: 'nodeport-addresses', group: 'addresses' },
  }),
  clusterCIDR: field('text', '', RESTART, {
    doc: 'Addresses of Pods, for detectLocalMode ClusterCIDR: one CIDR, or one of each family.',
    ruleText: 'one or two CIDRs, of different families',
    flag: { name: 'cluster-cidr', group: 'addresses', value: 'CIDR[,CIDR]' },
  }),
  detectLocalMode: field('text', '', RESTART, {
    doc: 'How traffic from Pods of this node is recognised.',
    defaultText: 'ClusterCIDR',
    words: ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'],
    flag: { name: 'detect-local-mode', group: 'addresses', value: 'MODE' },
  }),
  'detectLocal.bridgeInterface': field('text', '', RESTART, {
    doc: 'The bridge of the Pods, for detectLocalMode BridgeInterface.',
    ruleText: 'not empty in that mode',
    flag: { name: 'pod-bridge-interface', group: 'addresses', value: 'NAME' },
  }),
  'detectLocal.interfaceNamePrefix': field('text', '', RESTART, {
    doc: 'How the names of Pod interfaces begin, for detectLocalMode InterfaceNamePrefix.',
    ruleText: 'not empty in that mode',
    flag: { name: 'pod-interface-name-prefix', group: 'addresses', value: 'TEXT' },
  }),

  'clientConnection.kubeconfig': field('text', '', RESTART, {
    doc: 'Path of the kubeconfig that says how to reach the API server.',
    defaultText: 'the configuration of the Pod it runs in',
    flag: { name: 'kubeconfig', group: 'first', value: 'FILE' },
  }),
  'clientConnection.acceptContentTypes': field('text', '', RESTART, {
    doc: 'Accept header of requests to the API server.',
    defaultText: 'derived from contentType',
  }),
  'clientConnection.contentType': field('text', 'application/vnd.kubernetes.protobuf', RESTART, {
    doc: 'Encoding to request from the API server.',
    flag: { name: 'kube-api-content-type', group: 'api', value: 'TYPE' },
  }),
  'clientConnection.qps': field('float32', 5, RESTART, {
    doc: 'Events sent to the API server a second, on average.',
    unit: 'requests a second',
    flag: { name: 'kube-api-qps', group: 'api' },
  }),
  'clientConnection.burst': field('nonZeroInt32', 10, RESTART, {
    doc: 'Events sent to the API server at once.',
    unit: 'requests',
    rule: 'notNegative',
    flag: { name: 'kube-api-burst', group: 'api' },
  }),

  healthzBindAddress: field('addressPort', '', RESTART, {
    doc: 'Where /healthz and /livez are served. An address alone gets the port 10256.',
    defaultText: '0.0.0.0:10256, or [::]:10256 if bindAddress is IPv6',
    rule: 'addressPort',
    flag: { name: 'healthz-bind-address', group: 'ports', default: '0.0.0.0:10256' },
  }),
  metricsBindAddress: field('addressPort', '', RESTART, {
    doc: 'Where /metrics is served. An address alone gets the port 10249.',
    defaultText: '127.0.0.1:10249, or [::1]:10249 if bindAddress is IPv6',
    rule: 'addressPort',
    flag: { name: 'metrics-bind-address', group: 'ports', default: '127.0.0.1:10249' },
  }),
  bindAddressHardFail: field('boolean', false, RESTART, {
    doc: 'A port that cannot be opened ends the process.',
    flag: { name: 'bind-address-hard-fail', group: 'ports' },
  }),
  enableProfiling: field('boolean', false, RESTART, {
    doc: 'Serve profiles on the port of /metrics.',
    flag: { name: 'profiling', group: 'ports' },
  }),

  ...LOGGING_FIELDS,
  oomScoreAdj: field('int32', -999, LIVE, {
    doc: 'How unwilling the kernel is to end this process when memory runs out; -1000 protects it fully.',
    rule: [-1000, 1000],
    flag: { name: 'oom-score-adj', group: 'process' },
  }),

  'conntrack.maxPerCore': field('int32', 32_768, LIVE, {
    doc: 'Tracked connections for each processor. The limit of the kernel is only raised; 0 leaves it.',
    rule: 'notNegative',
    flag: { name: 'conntrack-max-per-core', group: 'conntrack' },
  }),
  'conntrack.min': field('int32', 131_072, LIVE, {
    doc: 'Smallest limit of tracked connections; it applies if maxPerCore results in fewer, but not where that would be more than 1048576.',
    rule: 'notNegative',
    flag: { name: 'conntrack-min', group: 'conntrack' },
  }),
  'conntrack.tcpEstablishedTimeout': field('optionalDuration', 24 * HOUR_MS, LIVE, {
    doc: 'Timeout of idle established TCP connections; 0 keeps the value of the kernel.',
    rule: 'notNegative',
    flag: { name: 'conntrack-tcp-timeout-established', group: 'conntrack' },
  }),
  'conntrack.tcpCloseWaitTimeout': field('optionalDuration', HOUR_MS, LIVE, {
    doc: 'Timeout of TCP connections in CLOSE_WAIT; 0 keeps the value of the kernel.',
    rule: 'notNegative',
    flag: { name: 'conntrack-tcp-timeout-close-wait', group: 'conntrack' },
  }),
  'conntrack.tcpBeLiberal': field('boolean', false, LIVE_BUT_FOR_RULES, {
    doc: 'Set nf_conntrack_tcp_be_liberal to 1.',
    flag: { name: 'conntrack-tcp-be-liberal', group: 'conntrack' },
  }),
  'conntrack.udpTimeout': field('duration', 0, LIVE, {
    doc: 'Timeout of UDP flows without an answer; 0 keeps the value of the kernel.',
    rule: 'notNegative',
    flag: { name: 'conntrack-udp-timeout', group: 'conntrack' },
  }),
  'conntrack.udpStreamTimeout': field('duration', 0, LIVE, {
    doc: 'Timeout of UDP flows with answers; 0 keeps the value of the kernel.',
    rule: 'notNegative',
    flag: { name: 'conntrack-udp-timeout-stream', group: 'conntrack' },
  }),

  ...OWN_FIELDS,

  configSyncPeriod: field('duration', 15 * 60_000, NO_EFFECT, {
    doc: 'How often kube-proxy lists all objects again.',
    rule: 'positive',
    flag: { name: 'config-sync-period', group: 'unused' },
  }),
  showHiddenMetricsForVersion: field('text', '', NO_EFFECT, {
    doc: 'Hidden metrics of a release; no metric is hidden.',
    ruleText: `empty, ${KUBE_PROXY_RELEASE.previousMinorVersion} or a later release`,
    flag: { name: 'show-hidden-metrics-for-version', group: 'unused', value: 'VERSION' },
  }),
  portRange: field('text', '', NO_EFFECT, { doc: 'Has no effect in kube-proxy either.', lostFromFile: true }),
  'nftables.masqueradeBit': field('int32', 14, NO_EFFECT, { ...OF_NFTABLES_MODE, rule: [0, 31] }),
  'nftables.masqueradeAll': field('boolean', false, NO_EFFECT, OF_NFTABLES_MODE),
  'nftables.syncPeriod': field('duration', 30_000, NO_EFFECT, { ...OF_NFTABLES_MODE, rule: 'positive' }),
  'nftables.minSyncPeriod': field('duration', 1_000, NO_EFFECT, { ...OF_NFTABLES_MODE, rule: 'notNegative' }),
  windowsRunAsService: field('boolean', false, NO_EFFECT, { ...OF_WINDOWS, written: 'unlessDefault' }),
  'winkernel.networkName': field('text', '', NO_EFFECT, OF_WINDOWS),
  'winkernel.sourceVip': field('text', '', NO_EFFECT, OF_WINDOWS),
  'winkernel.enableDSR': field('boolean', false, NO_EFFECT, OF_WINDOWS),
  'winkernel.rootHnsEndpointName': field('text', '', NO_EFFECT, OF_WINDOWS),
  'winkernel.forwardHealthCheckVip': field('boolean', false, NO_EFFECT, OF_WINDOWS),
}
