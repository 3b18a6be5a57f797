/**
 * What `--help` says of each flag, in groups. Loaded for help alone.
 * What could break: a flag without an entry here does not compile; the text of a flag that kube-proxy has says what it does here.
 */
import type { FlagKey } from './flags.ts'

export const FLAG_GROUPS = [
  'General',
  'API server',
  'Mode',
  'Addresses and local traffic',
  'Connection tracking',
  'Servers',
  'Logging',
  'Only of kube-ipvs',
] as const

export type FlagGroup = (typeof FLAG_GROUPS)[number]

export interface FlagHelp {
  readonly group: FlagGroup
  /** What stands for the value; '' for a boolean. */
  readonly value: string
  readonly help: string
  /** What holds when the flag is not given; absent when that goes without saying. */
  readonly default?: string
}

const entry =
  (group: FlagGroup) =>
  (value: string, help: string, fallback?: string): FlagHelp => ({
    group,
    value,
    help,
    ...(fallback === undefined ? {} : { default: fallback }),
  })

const general = entry('General')
const api = entry('API server')
const mode = entry('Mode')
const local = entry('Addresses and local traffic')
const conntrack = entry('Connection tracking')
const servers = entry('Servers')
const logging = entry('Logging')
const own = entry('Only of kube-ipvs')

/** The order is that of help. */
export const FLAG_HELP: Readonly<Record<FlagKey, FlagHelp>> = {
  config: general(
    'FILE',
    'KubeProxyConfiguration (v1alpha1) to run with. Beside it only --hostname-override, --master, --cleanup, --init-only, --write-config-to, the logging flags and those of kube-ipvs alone count.',
  ),
  writeConfigTo: general('FILE', 'Write the configuration as it would be used to this file and exit.'),
  cleanup: general('', 'Remove what a proxy of any mode left on this node, then exit.'),
  initOnly: general('', 'Do what needs full root privileges, then exit; NET_ADMIN is enough for a start after it.'),
  hostnameOverride: general('NAME', 'Name of the Node object of this machine.', 'the host name'),
  featureGates: general(
    'NAME=BOOL,...',
    'Feature gates of Kubernetes. Those with an effect here: AllowServiceExternalIPs, LoggingAlphaOptions, LoggingBetaOptions.',
  ),
  oomScoreAdj: general('N', 'How unwilling the kernel is to end this process, -1000 to 1000.', '-999'),
  help: general('', 'Print this text and exit.'),
  version: general('', 'Print the version and exit; --version=raw prints more.'),

  kubeconfig: api('FILE', 'How to reach the API server.', 'in-cluster configuration'),
  master: api('URL', 'Address of the API server; replaces the one of the kubeconfig.'),
  kubeApiContentType: api('TYPE', 'Encoding to ask the API server for.', 'application/vnd.kubernetes.protobuf'),
  kubeApiQps: api('N', 'Events sent to the API server, a second on average.', '5'),
  kubeApiBurst: api('N', 'Events sent to the API server at once.', '10'),
  configSyncPeriod: api('DURATION', 'No effect here; more than 0.', '15m0s'),

  proxyMode: mode('MODE', 'ipvs or iptables.', 'iptables; ipvs with --manifests'),
  ipvsScheduler: mode('NAME', 'Kernel scheduler of virtual servers.', 'rr'),
  ipvsExcludeCidrs: mode('CIDR,...', 'Virtual servers with an address in one of these are never removed.'),
  ipvsStrictArp: mode('', 'Set arp_ignore to 1 and arp_announce to 2.'),
  ipvsSyncPeriod: mode('DURATION', 'How long a difference that nothing announces may stay, in ipvs mode.', '30s'),
  ipvsMinSyncPeriod: mode('DURATION', 'Shortest time between two passes, in ipvs mode.', '1s'),
  ipvsTcpTimeout: mode('DURATION', 'Timeout of idle TCP connections; 0 leaves the kernel alone.', '0s'),
  ipvsTcpfinTimeout: mode('DURATION', 'Timeout of TCP connections after a FIN; 0 leaves the kernel alone.', '0s'),
  ipvsUdpTimeout: mode('DURATION', 'Timeout of UDP flows; 0 leaves the kernel alone.', '0s'),
  masqueradeAll: mode('', 'Masquerade everything that goes to a ClusterIP.'),
  iptablesMasqueradeBit: mode('N', 'Bit of the packet mark that asks for masquerading, in both modes, 0 to 31.', '14'),
  iptablesLocalhostNodeports: mode('', 'Node ports answer on 127.0.0.1, in iptables mode.', 'true'),
  iptablesSyncPeriod: mode('DURATION', 'As --ipvs-sync-period, in iptables mode.', '30s'),
  iptablesMinSyncPeriod: mode('DURATION', 'As --ipvs-min-sync-period, in iptables mode.', '1s'),

  bindAddress: local(
    'IP',
    'The node IP of its family, and what decides the primary family; nothing is bound to it.',
    '0.0.0.0',
  ),
  nodeportAddresses: local(
    'CIDR,...',
    'Addresses of the node that node ports answer on: ranges, and the words primary (those of the Node object), localhost (in iptables mode only), all.',
    'all',
  ),
  clusterCidr: local('CIDR[,CIDR]', 'Addresses of Pods, for --detect-local-mode=ClusterCIDR.'),
  detectLocalMode: local('MODE', 'ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix.', 'ClusterCIDR'),
  podBridgeInterface: local('NAME', 'The bridge of the Pods, for BridgeInterface.'),
  podInterfaceNamePrefix: local('TEXT', 'How interfaces of Pods begin, for InterfaceNamePrefix.'),

  conntrackMaxPerCore: conntrack('N', 'Connections for each processor; 0 leaves the limit as it is.', '32768'),
  conntrackMin: conntrack('N', 'Connections at least, whatever --conntrack-max-per-core says.', '131072'),
  conntrackTcpBeLiberal: conntrack('', 'Set nf_conntrack_tcp_be_liberal to 1.'),
  conntrackTcpEstablished: conntrack(
    'DURATION',
    'Timeout of idle established TCP connections; 0 leaves it alone.',
    '24h0m0s',
  ),
  conntrackTcpCloseWait: conntrack(
    'DURATION',
    'Timeout of TCP connections in CLOSE_WAIT; 0 leaves it alone.',
    '1h0m0s',
  ),
  conntrackUdp: conntrack('DURATION', 'Timeout of UDP flows without an answer; 0 leaves it alone.', '0s'),
  conntrackUdpStream: conntrack('DURATION', 'Timeout of UDP flows with answers; 0 leaves it alone.', '0s'),

  healthzBindAddress: servers('IP[:PORT]', 'Where /healthz and /livez are served.', '0.0.0.0:10256'),
  metricsBindAddress: servers('IP[:PORT]', 'Where /metrics is served.', '127.0.0.1:10249'),
  bindAddressHardFail: servers('', 'A port that cannot be opened ends the process.'),
  profiling: servers('', 'Serve profiles beside /metrics.'),
  showHiddenMetrics: servers('VERSION', 'No effect here; empty, 1.35 or a later release.'),
  healthzPort: servers('N', 'Deprecated: use --healthz-bind-address. 0 switches it off.'),
  metricsPort: servers('N', 'Deprecated: use --metrics-bind-address.'),

  verbosity: logging('N', 'How much to log: 2 shows every change, 4 helps with debugging.', '0'),
  vmodule: logging('PATTERN=N,...', 'Verbosity of their own for some source files; text format only.'),
  loggingFormat: logging('text|json', 'Form of the log lines on standard error.', 'text'),
  logFlushFrequency: logging('DURATION', 'No effect here: every line is written at once.', '5s'),
  logTextSplitStream: logging('', 'No effect here; needs the feature gate LoggingAlphaOptions.'),
  logTextInfoBufferSize: logging('SIZE', 'No effect here; needs the feature gate LoggingAlphaOptions.'),
  logJsonSplitStream: logging('', 'No effect here; needs the feature gate LoggingAlphaOptions.'),
  logJsonInfoBufferSize: logging('SIZE', 'No effect here; needs the feature gate LoggingAlphaOptions.'),
  bootIdFile: logging('FILE,...', 'No effect here.'),
  machineIdFile: logging('FILE,...', 'No effect here.'),

  manifests: own(
    'DIR',
    'Take Services, EndpointSlices and Nodes from the YAML and JSON files of this folder instead of asking an API server; the daemon follows every change of them.',
  ),
  once: own('', 'Make one pass, then exit.'),
  drainDeadline: own(
    'DURATION',
    'Remove a draining real server after this time (30s, 10m) even if it still has connections. As kubeIPVS.drainDeadline.',
    '0s, no deadline',
  ),
  allowedVirtualIps: own(
    'CIDR,...',
    'Ranges that externalIPs and load-balancer addresses may lie in; an empty list allows none. As kubeIPVS.allowedVirtualIPs.',
    'anywhere',
  ),
  serviceMetricsLimit: own(
    'N',
    'Services that get metrics of their traffic of their own; 0: none. As kubeIPVS.serviceMetricsLimit.',
    '100',
  ),
  dryRun: own('', 'Print what would be removed and change nothing.'),
  output: own('text|json', 'json prints exactly one JSON value on standard output.', 'text'),
}
