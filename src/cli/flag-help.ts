/**
 * What `--help` says of each flag, in groups. Loaded for help alone. A flag without an entry here does not compile; the
 * text of a flag that kube-proxy has says what it does here.
 */
import type { CommandName, FlagKey } from './flags.ts'

/** Titles of the groups, in the order of help: what most people need comes first, what does nothing last. */
export const FLAG_GROUPS = [
  'Flags to begin with',
  'Flags that do one thing and end',
  'Flags for modes and rules',
  'Flags for addresses and local traffic',
  'Flags for the API server',
  'Flags for the health and metrics ports',
  'Flags for logging and the process',
  'Flags for connection tracking',
  'Flags that kube-proxy does not have',
  'Flags of kube-proxy without effect here',
] as const

export type FlagGroup = (typeof FLAG_GROUPS)[number]

export interface FlagHelp {
  readonly group: FlagGroup
  /** What stands for the value; '' for a boolean. */
  readonly value: string
  readonly help: string
  /** What holds when the flag is not given; absent when that goes without saying. */
  readonly default?: string
  /** Instead of `help`, where the flag means something else to a command. */
  readonly about?: { readonly [command in CommandName]?: string }
}

const entry =
  (group: FlagGroup) =>
  (value: string, help: string, fallback?: string): FlagHelp => ({
    group,
    value,
    help,
    ...(fallback === undefined ? {} : { default: fallback }),
  })

const first = entry('Flags to begin with')
const once = entry('Flags that do one thing and end')
const mode = entry('Flags for modes and rules')
const local = entry('Flags for addresses and local traffic')
const api = entry('Flags for the API server')
const ports = entry('Flags for the health and metrics ports')
const logging = entry('Flags for logging and the process')
const conntrack = entry('Flags for connection tracking')
const own = entry('Flags that kube-proxy does not have')
const unused = entry('Flags of kube-proxy without effect here')

/** The order is that of help. */
export const FLAG_HELP: Readonly<Record<FlagKey, FlagHelp>> = {
  config: {
    ...first(
      'FILE',
      'KubeProxyConfiguration (v1alpha1) to run with. Beside it only these flags count: --hostname-override, --master, --cleanup, --init-only, --write-config-to, those for logging, and those that kube-proxy does not have.',
    ),
    about: {
      status:
        'KubeProxyConfiguration (v1alpha1) of the daemon: its metrics address is asked for the mode, its API server for the names of Services.',
      cleanup: 'KubeProxyConfiguration (v1alpha1) whose ipvs.excludeCIDRs names virtual servers that stay.',
    },
  },
  manifests: {
    ...first(
      'DIR',
      'Take Services, EndpointSlices and Nodes from the YAML and JSON files of this folder instead of an API server, and follow every change of them.',
    ),
    about: { status: 'Take the names of Services from the YAML and JSON files of this folder.' },
  },
  kubeconfig: {
    ...first('FILE', 'How to reach the API server.', 'the configuration of the Pod it runs in'),
    about: { status: 'Take the names of Services from the API server of this kubeconfig.' },
  },
  proxyMode: first('MODE', 'ipvs or iptables.', 'iptables; ipvs with --manifests'),
  hostnameOverride: first('NAME', 'Name of the Node object of this machine.', 'the host name'),
  dryRun: first('', 'Print what would be removed and change nothing.'),
  verbosity: first('N', 'How much to log: 2 shows every change, 4 helps with debugging.', '0'),
  output: first('text|json', 'json prints exactly one JSON value on standard output.', 'text'),
  help: first('', 'Print this text and exit.'),

  once: once('', 'Make one pass, then exit.'),
  writeConfigTo: once('FILE', 'Write the configuration as it would be used to this file.'),
  initOnly: once(
    '',
    'Write the settings of the kernel, which takes all rights of root; NET_ADMIN is enough for a start after it.',
  ),
  cleanup: once('', 'Remove what a proxy of any mode left on this node, as kube-ipvs cleanup does.'),
  version: once('', 'Print the version; --version=raw prints more.'),

  ipvsScheduler: mode('NAME', 'Kernel scheduler of virtual servers.', 'rr'),
  ipvsExcludeCidrs: mode('CIDR,...', 'Virtual servers with an address in one of these are never removed.'),
  ipvsStrictArp: mode('', 'Set arp_ignore to 1 and arp_announce to 2, in ipvs mode.'),
  ipvsSyncPeriod: mode('DURATION', 'How long a difference that nothing announces may stay, in ipvs mode.', '30s'),
  ipvsMinSyncPeriod: mode('DURATION', 'Shortest time between two passes, in ipvs mode.', '1s'),
  ipvsTcpTimeout: mode('DURATION', 'Timeout of idle TCP connections through IPVS; 0 leaves the kernel alone.', '0s'),
  ipvsTcpfinTimeout: mode(
    'DURATION',
    'Timeout of TCP connections through IPVS after a FIN; 0 leaves the kernel alone.',
    '0s',
  ),
  ipvsUdpTimeout: mode('DURATION', 'Timeout of UDP flows through IPVS; 0 leaves the kernel alone.', '0s'),
  masqueradeAll: mode('', 'Masquerade all traffic to ClusterIPs.'),
  iptablesMasqueradeBit: mode('N', 'Bit of the packet mark that asks for masquerading, in both modes, 0 to 31.', '14'),
  iptablesLocalhostNodeports: mode('', 'Node ports answer on 127.0.0.1, in iptables mode.', 'true'),
  iptablesSyncPeriod: mode('DURATION', 'As --ipvs-sync-period, in iptables mode.', '30s'),
  iptablesMinSyncPeriod: mode('DURATION', 'As --ipvs-min-sync-period, in iptables mode.', '1s'),
  featureGates: mode(
    'NAME=BOOL,...',
    'Feature gates of Kubernetes. Those with an effect here: AllowServiceExternalIPs, LoggingAlphaOptions, LoggingBetaOptions.',
  ),

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

  master: api('URL', 'Address of the API server; replaces the one of the kubeconfig.'),
  kubeApiContentType: api('TYPE', 'Encoding to ask the API server for.', 'application/vnd.kubernetes.protobuf'),
  kubeApiQps: api('N', 'Events sent to the API server, a second on average.', '5'),
  kubeApiBurst: api('N', 'Events sent to the API server at once.', '10'),

  healthzBindAddress: ports('IP[:PORT]', 'Where /healthz and /livez are served.', '0.0.0.0:10256'),
  metricsBindAddress: {
    ...ports('IP[:PORT]', 'Where /metrics is served.', '127.0.0.1:10249'),
    about: { status: 'Metrics address of the daemon, which is asked for its mode.' },
  },
  bindAddressHardFail: ports('', 'A port that cannot be opened ends the process.'),
  profiling: ports('', 'Serve profiles beside /metrics.'),
  healthzPort: ports('N', 'Deprecated: use --healthz-bind-address. 0 switches it off.'),
  metricsPort: ports('N', 'Deprecated: use --metrics-bind-address.'),

  loggingFormat: logging('text|json', 'Form of the log lines on standard error.', 'text'),
  vmodule: logging('PATTERN=N,...', 'Another verbosity for some source files; text format only.'),
  oomScoreAdj: logging('N', 'How unwilling the kernel is to end this process, -1000 to 1000.', '-999'),

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

  drainDeadline: own(
    'DURATION',
    'Remove a draining real server after this time (30s, 10m) even if it still has connections. As kubeIPVS.drainDeadline.',
    '0s, no deadline',
  ),
  allowedExternalIps: own(
    'CIDR,...',
    'Ranges that externalIPs may lie in; an empty list allows none. As kubeIPVS.allowedExternalIPs.',
    'anywhere',
  ),
  allowedLoadBalancerIps: own(
    'CIDR,...',
    'Ranges that load-balancer addresses may lie in; an empty list allows none. As kubeIPVS.allowedLoadBalancerIPs.',
    'anywhere',
  ),
  allowProtectedExternalIps: own(
    '',
    'Take externalIPs that are addresses of this node, its gateways, the API server or the resolvers. As kubeIPVS.allowProtectedExternalIPs.',
  ),
  maxFrontendsPerService: own(
    'N',
    'Addresses and ports that a Service may have on a node; what is more is left out. As kubeIPVS.maxFrontendsPerService.',
    '10000',
  ),
  serviceMetricsLimit: own(
    'N',
    'Services that have metrics of their own traffic; 0: none. As kubeIPVS.serviceMetricsLimit.',
    '100',
  ),

  configSyncPeriod: unused('DURATION', 'Must be more than 0.', '15m0s'),
  showHiddenMetrics: unused('VERSION', 'Empty, 1.35 or a later release.'),
  logFlushFrequency: unused('DURATION', 'Every line is written at once.', '5s'),
  logTextSplitStream: unused('', 'Needs the feature gate LoggingAlphaOptions.'),
  logTextInfoBufferSize: unused('SIZE', 'Needs the feature gate LoggingAlphaOptions.'),
  logJsonSplitStream: unused('', 'Needs the feature gate LoggingAlphaOptions.'),
  logJsonInfoBufferSize: unused('SIZE', 'Needs the feature gate LoggingAlphaOptions.'),
  bootIdFile: unused('FILE,...', ''),
  machineIdFile: unused('FILE,...', ''),
}
