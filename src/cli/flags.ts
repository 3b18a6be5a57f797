/**
 * Every command and every flag, as data: the command line is read from this table; what help says of them is in flag-help.ts.
 * What could break: DaemonSets start us with kube-proxy's own command line; a flag that exists there keeps its name and meaning.
 */
import type { VmoduleItem } from '../config/types.ts'

export const COMMANDS = ['run', 'status', 'diff', 'cleanup'] as const
/** `run` is the daemon: the command when none is named. */
export type CommandName = (typeof COMMANDS)[number]

/** What each kind of flag becomes. Durations are milliseconds; the others are what their names say in kube-proxy's help. */
export interface FlagKinds {
  boolean: boolean
  text: string
  int32: number
  float32: number
  duration: number
  /** A comma list, whose repeats add up. */
  texts: readonly string[]
  /** `Name=true,Other=false`; repeats add up. */
  gates: Readonly<Record<string, boolean>>
  /** Checked, but kept as written; '' is as good as not given. */
  ip: string
  ipport: string
  /** A log level, 0 to 2^31-1. */
  level: number
  vmodule: readonly VmoduleItem[]
  quantity: string
  version: string
  output: 'text' | 'json'
}

export interface Flag {
  /** Name on the command line, without dashes. */
  readonly name: string
  /** One letter that does the same after a single dash. */
  readonly short?: string
  readonly kind: keyof FlagKinds
  readonly commands: readonly CommandName[]
  /** What to use instead; said on standard error each time. */
  readonly deprecated?: string
  /** True for those that kube-proxy does not have. */
  readonly own?: true
}

const RUN = ['run'] as const
/** Those that need a configuration. */
const CONFIGURED = ['run', 'diff'] as const
/** Those that ask Services of somebody. */
const LISTING = ['run', 'diff', 'status'] as const
const ALL = COMMANDS

const insteadOf = (name: string) =>
  `This flag is deprecated and will be removed in a future release. Please use --${name} instead.`

/** Keys are the names in `FlagValues`. */
export const FLAGS = {
  config: { name: 'config', kind: 'text', commands: ALL },
  writeConfigTo: { name: 'write-config-to', kind: 'text', commands: RUN },
  cleanup: { name: 'cleanup', kind: 'boolean', commands: RUN },
  initOnly: { name: 'init-only', kind: 'boolean', commands: RUN },
  hostnameOverride: { name: 'hostname-override', kind: 'text', commands: LISTING },
  featureGates: { name: 'feature-gates', kind: 'gates', commands: CONFIGURED },
  oomScoreAdj: { name: 'oom-score-adj', kind: 'int32', commands: CONFIGURED },

  master: { name: 'master', kind: 'text', commands: LISTING },
  kubeconfig: { name: 'kubeconfig', kind: 'text', commands: LISTING },
  kubeApiContentType: { name: 'kube-api-content-type', kind: 'text', commands: CONFIGURED },
  kubeApiQps: { name: 'kube-api-qps', kind: 'float32', commands: CONFIGURED },
  kubeApiBurst: { name: 'kube-api-burst', kind: 'int32', commands: CONFIGURED },
  configSyncPeriod: { name: 'config-sync-period', kind: 'duration', commands: CONFIGURED },

  proxyMode: { name: 'proxy-mode', kind: 'text', commands: CONFIGURED },
  ipvsScheduler: { name: 'ipvs-scheduler', kind: 'text', commands: CONFIGURED },
  ipvsExcludeCidrs: { name: 'ipvs-exclude-cidrs', kind: 'texts', commands: CONFIGURED },
  ipvsStrictArp: { name: 'ipvs-strict-arp', kind: 'boolean', commands: CONFIGURED },
  ipvsSyncPeriod: { name: 'ipvs-sync-period', kind: 'duration', commands: CONFIGURED },
  ipvsMinSyncPeriod: { name: 'ipvs-min-sync-period', kind: 'duration', commands: CONFIGURED },
  ipvsTcpTimeout: { name: 'ipvs-tcp-timeout', kind: 'duration', commands: CONFIGURED },
  ipvsTcpfinTimeout: { name: 'ipvs-tcpfin-timeout', kind: 'duration', commands: CONFIGURED },
  ipvsUdpTimeout: { name: 'ipvs-udp-timeout', kind: 'duration', commands: CONFIGURED },
  masqueradeAll: { name: 'masquerade-all', kind: 'boolean', commands: CONFIGURED },
  iptablesMasqueradeBit: { name: 'iptables-masquerade-bit', kind: 'int32', commands: CONFIGURED },
  iptablesLocalhostNodeports: { name: 'iptables-localhost-nodeports', kind: 'boolean', commands: CONFIGURED },
  iptablesSyncPeriod: { name: 'iptables-sync-period', kind: 'duration', commands: CONFIGURED },
  iptablesMinSyncPeriod: { name: 'iptables-min-sync-period', kind: 'duration', commands: CONFIGURED },

  bindAddress: { name: 'bind-address', kind: 'ip', commands: CONFIGURED },
  nodeportAddresses: { name: 'nodeport-addresses', kind: 'texts', commands: CONFIGURED },
  clusterCidr: { name: 'cluster-cidr', kind: 'text', commands: CONFIGURED },
  detectLocalMode: { name: 'detect-local-mode', kind: 'text', commands: CONFIGURED },
  podBridgeInterface: { name: 'pod-bridge-interface', kind: 'text', commands: CONFIGURED },
  podInterfaceNamePrefix: { name: 'pod-interface-name-prefix', kind: 'text', commands: CONFIGURED },

  conntrackMaxPerCore: { name: 'conntrack-max-per-core', kind: 'int32', commands: CONFIGURED },
  conntrackMin: { name: 'conntrack-min', kind: 'int32', commands: CONFIGURED },
  conntrackTcpBeLiberal: { name: 'conntrack-tcp-be-liberal', kind: 'boolean', commands: CONFIGURED },
  conntrackTcpEstablished: { name: 'conntrack-tcp-timeout-established', kind: 'duration', commands: CONFIGURED },
  conntrackTcpCloseWait: { name: 'conntrack-tcp-timeout-close-wait', kind: 'duration', commands: CONFIGURED },
  conntrackUdp: { name: 'conntrack-udp-timeout', kind: 'duration', commands: CONFIGURED },
  conntrackUdpStream: { name: 'conntrack-udp-timeout-stream', kind: 'duration', commands: CONFIGURED },

  healthzBindAddress: { name: 'healthz-bind-address', kind: 'ipport', commands: CONFIGURED },
  metricsBindAddress: { name: 'metrics-bind-address', kind: 'ipport', commands: LISTING },
  bindAddressHardFail: { name: 'bind-address-hard-fail', kind: 'boolean', commands: CONFIGURED },
  profiling: { name: 'profiling', kind: 'boolean', commands: CONFIGURED },
  showHiddenMetrics: { name: 'show-hidden-metrics-for-version', kind: 'text', commands: CONFIGURED },
  healthzPort: {
    name: 'healthz-port',
    kind: 'int32',
    commands: CONFIGURED,
    deprecated: insteadOf('healthz-bind-address'),
  },
  metricsPort: {
    name: 'metrics-port',
    kind: 'int32',
    commands: CONFIGURED,
    deprecated: insteadOf('metrics-bind-address'),
  },

  verbosity: { name: 'v', short: 'v', kind: 'level', commands: ALL },
  vmodule: { name: 'vmodule', kind: 'vmodule', commands: CONFIGURED },
  loggingFormat: { name: 'logging-format', kind: 'text', commands: ALL },
  logFlushFrequency: { name: 'log-flush-frequency', kind: 'duration', commands: CONFIGURED },
  logTextSplitStream: { name: 'log-text-split-stream', kind: 'boolean', commands: CONFIGURED },
  logTextInfoBufferSize: { name: 'log-text-info-buffer-size', kind: 'quantity', commands: CONFIGURED },
  logJsonSplitStream: { name: 'log-json-split-stream', kind: 'boolean', commands: CONFIGURED },
  logJsonInfoBufferSize: { name: 'log-json-info-buffer-size', kind: 'quantity', commands: CONFIGURED },
  bootIdFile: { name: 'boot-id-file', kind: 'text', commands: RUN },
  machineIdFile: { name: 'machine-id-file', kind: 'text', commands: RUN },

  manifests: { name: 'manifests', kind: 'text', commands: LISTING, own: true },
  once: { name: 'once', kind: 'boolean', commands: RUN, own: true },
  drainDeadline: { name: 'drain-deadline', kind: 'duration', commands: CONFIGURED, own: true },
  allowedExternalIps: { name: 'allowed-external-ips', kind: 'texts', commands: CONFIGURED, own: true },
  allowedLoadBalancerIps: { name: 'allowed-load-balancer-ips', kind: 'texts', commands: CONFIGURED, own: true },
  allowProtectedExternalIps: { name: 'allow-protected-external-ips', kind: 'boolean', commands: CONFIGURED, own: true },
  maxFrontendsPerService: { name: 'max-frontends-per-service', kind: 'int32', commands: CONFIGURED, own: true },
  serviceMetricsLimit: { name: 'service-metrics-limit', kind: 'int32', commands: CONFIGURED, own: true },
  dryRun: { name: 'dry-run', kind: 'boolean', commands: ['cleanup'], own: true },
  output: { name: 'output', short: 'o', kind: 'output', commands: ALL, own: true },
  help: { name: 'help', short: 'h', kind: 'boolean', commands: ALL },
  version: { name: 'version', kind: 'version', commands: RUN },
} as const satisfies Readonly<Record<string, Flag>>

export type FlagKey = keyof typeof FLAGS

/** Values of the flags that were given. */
export type FlagValues = { readonly [Key in FlagKey]?: FlagKinds[(typeof FLAGS)[Key]['kind']] }
