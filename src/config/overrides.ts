/**
 * What the command line changes in a configuration: everything when there is no file, little when there is one.
 * What could break: with a file, kube-proxy ignores most flags without a word; a DaemonSet's command line counts on it.
 */
import { keepBlockOfMode, withPort } from './complete.ts'
import { GIVEN_EMPTY } from './field.ts'
import type { UncheckedConfiguration, VmoduleItem } from './types.ts'

/** Values from the command line; absent means that the flag was not given. Durations are milliseconds. */
export interface ConfigurationFlags extends LoggingFlags, OwnFlags {
  readonly hostnameOverride?: string
  readonly featureGates?: Readonly<Record<string, boolean>>
  readonly oomScoreAdj?: number
  readonly kubeconfig?: string
  readonly kubeApiContentType?: string
  readonly kubeApiQps?: number
  readonly kubeApiBurst?: number
  readonly configSyncPeriod?: number
  readonly proxyMode?: string
  readonly ipvsScheduler?: string
  readonly ipvsExcludeCidrs?: readonly string[]
  readonly ipvsStrictArp?: boolean
  readonly ipvsSyncPeriod?: number
  readonly ipvsMinSyncPeriod?: number
  readonly ipvsTcpTimeout?: number
  readonly ipvsTcpfinTimeout?: number
  readonly ipvsUdpTimeout?: number
  readonly masqueradeAll?: boolean
  readonly iptablesMasqueradeBit?: number
  readonly iptablesLocalhostNodeports?: boolean
  readonly iptablesSyncPeriod?: number
  readonly iptablesMinSyncPeriod?: number
  readonly bindAddress?: string
  readonly nodeportAddresses?: readonly string[]
  readonly clusterCidr?: string
  readonly detectLocalMode?: string
  readonly podBridgeInterface?: string
  readonly podInterfaceNamePrefix?: string
  readonly conntrackMaxPerCore?: number
  readonly conntrackMin?: number
  readonly conntrackTcpBeLiberal?: boolean
  readonly conntrackTcpEstablished?: number
  readonly conntrackTcpCloseWait?: number
  readonly conntrackUdp?: number
  readonly conntrackUdpStream?: number
  readonly healthzBindAddress?: string
  readonly metricsBindAddress?: string
  readonly bindAddressHardFail?: boolean
  readonly profiling?: boolean
  readonly showHiddenMetrics?: string
  readonly healthzPort?: number
  readonly metricsPort?: number
  readonly writeConfigTo?: string
}

interface LoggingFlags {
  readonly verbosity?: number
  readonly vmodule?: readonly VmoduleItem[]
  readonly loggingFormat?: string
  readonly logFlushFrequency?: number
  readonly logTextSplitStream?: boolean
  readonly logTextInfoBufferSize?: string
  readonly logJsonSplitStream?: boolean
  readonly logJsonInfoBufferSize?: string
}

interface OwnFlags {
  readonly drainDeadline?: number
  readonly allowedExternalIps?: readonly string[]
  readonly allowedLoadBalancerIps?: readonly string[]
  readonly allowProtectedExternalIps?: boolean
  readonly maxFrontendsPerService?: number
  readonly serviceMetricsLimit?: number
}

/** The configuration of a start without a file: `defaults` with the flags over them. */
export function configurationFromFlags(
  defaults: UncheckedConfiguration,
  flags: ConfigurationFlags,
): UncheckedConfiguration {
  const { clientConnection, iptables, ipvs, nftables, conntrack, detectLocal } = defaults
  const mode = flags.proxyMode ?? defaults.mode
  // kube-proxy has one pair of periods, which starts with the defaults of iptables in every mode.
  const periods = {
    syncPeriodMs: (mode === 'ipvs' ? flags.ipvsSyncPeriod : flags.iptablesSyncPeriod) ?? 30_000,
    minSyncPeriodMs: (mode === 'ipvs' ? flags.ipvsMinSyncPeriod : flags.iptablesMinSyncPeriod) ?? 1_000,
  }
  const masqueradeAll = flags.masqueradeAll ?? false
  const written = flags.writeConfigTo !== undefined && flags.writeConfigTo !== ''
  const changed: UncheckedConfiguration = {
    ...defaults,
    mode,
    featureGates: flags.featureGates ?? defaults.featureGates,
    oomScoreAdj: flags.oomScoreAdj ?? defaults.oomScoreAdj,
    clientConnection: {
      ...clientConnection,
      kubeconfig: flags.kubeconfig ?? clientConnection.kubeconfig,
      contentType: flags.kubeApiContentType ?? clientConnection.contentType,
      qps: flags.kubeApiQps ?? clientConnection.qps,
      burst: flags.kubeApiBurst ?? clientConnection.burst,
    },
    configSyncPeriodMs: flags.configSyncPeriod ?? defaults.configSyncPeriodMs,
    iptables: {
      ...iptables,
      ...periods,
      masqueradeAll,
      masqueradeBit: flags.iptablesMasqueradeBit ?? iptables.masqueradeBit,
      localhostNodePorts: flags.iptablesLocalhostNodeports ?? iptables.localhostNodePorts,
    },
    ipvs: {
      ...ipvs,
      ...periods,
      scheduler: flags.ipvsScheduler ?? ipvs.scheduler,
      excludeCIDRs: given(flags.ipvsExcludeCidrs) ?? ipvs.excludeCIDRs,
      strictARP: flags.ipvsStrictArp ?? ipvs.strictARP,
      tcpTimeoutMs: flags.ipvsTcpTimeout ?? ipvs.tcpTimeoutMs,
      tcpFinTimeoutMs: flags.ipvsTcpfinTimeout ?? ipvs.tcpFinTimeoutMs,
      udpTimeoutMs: flags.ipvsUdpTimeout ?? ipvs.udpTimeoutMs,
    },
    nftables: { ...nftables, ...periods, masqueradeAll },
    bindAddress: flags.bindAddress || defaults.bindAddress,
    nodePortAddresses: given(flags.nodeportAddresses) ?? defaults.nodePortAddresses,
    clusterCIDR: flags.clusterCidr ?? defaults.clusterCIDR,
    clusterCIDRGiven: flags.clusterCidr !== undefined,
    detectLocalMode: flags.detectLocalMode ?? defaults.detectLocalMode,
    detectLocal: {
      bridgeInterface: flags.podBridgeInterface ?? detectLocal.bridgeInterface,
      interfaceNamePrefix: flags.podInterfaceNamePrefix ?? detectLocal.interfaceNamePrefix,
    },
    conntrack: {
      ...conntrack,
      maxPerCore: flags.conntrackMaxPerCore ?? conntrack.maxPerCore,
      min: flags.conntrackMin ?? conntrack.min,
      tcpBeLiberal: flags.conntrackTcpBeLiberal ?? conntrack.tcpBeLiberal,
      tcpEstablishedTimeoutMs: flags.conntrackTcpEstablished ?? conntrack.tcpEstablishedTimeoutMs,
      tcpCloseWaitTimeoutMs: flags.conntrackTcpCloseWait ?? conntrack.tcpCloseWaitTimeoutMs,
      udpTimeoutMs: flags.conntrackUdp ?? conntrack.udpTimeoutMs,
      udpStreamTimeoutMs: flags.conntrackUdpStream ?? conntrack.udpStreamTimeoutMs,
    },
    healthzBindAddress: listenAddress(
      flags.healthzBindAddress || defaults.healthzBindAddress,
      flags.healthzPort,
      10_256,
      written,
    ),
    metricsBindAddress: listenAddress(
      flags.metricsBindAddress || defaults.metricsBindAddress,
      flags.metricsPort,
      10_249,
      written,
    ),
    bindAddressHardFail: flags.bindAddressHardFail ?? defaults.bindAddressHardFail,
    enableProfiling: flags.profiling ?? defaults.enableProfiling,
    showHiddenMetricsForVersion: flags.showHiddenMetrics ?? defaults.showHiddenMetricsForVersion,
  }
  return withFlagsBesideFile(keepBlockOfMode(changed), flags)
}

const given = (list: readonly string[] | undefined) => (list?.length === 0 ? GIVEN_EMPTY : list)

/** kube-proxy joins a port of its own flag to an address only when it is going to listen; port 0 switches off. */
function listenAddress(address: string, port: number | undefined, usual: number, written: boolean): string {
  if (written) return address
  return port === 0 ? '' : withPort(address, port ?? usual)
}

/** The few flags that count beside a file too: node name, logging, and all of our own. */
export function withFlagsBesideFile(
  configuration: UncheckedConfiguration,
  flags: ConfigurationFlags,
): UncheckedConfiguration {
  const { logging, kubeIPVS } = configuration
  const { text, json } = logging.options
  return {
    ...configuration,
    hostnameOverride: flags.hostnameOverride
      ? flags.hostnameOverride.trim().toLowerCase()
      : configuration.hostnameOverride,
    logging: {
      ...logging,
      verbosity: flags.verbosity ?? logging.verbosity,
      format: flags.loggingFormat ?? logging.format,
      flushFrequencyMs: flags.logFlushFrequency ?? logging.flushFrequencyMs,
      // Those of the command line come first and therefore win.
      vmodule: [...(flags.vmodule ?? []), ...logging.vmodule],
      options: {
        text: {
          splitStream: flags.logTextSplitStream ?? text.splitStream,
          infoBufferSize: flags.logTextInfoBufferSize ?? text.infoBufferSize,
        },
        json: {
          splitStream: flags.logJsonSplitStream ?? json.splitStream,
          infoBufferSize: flags.logJsonInfoBufferSize ?? json.infoBufferSize,
        },
      },
    },
    kubeIPVS: {
      ...kubeIPVS,
      drainDeadlineMs: flags.drainDeadline ?? kubeIPVS.drainDeadlineMs,
      allowedExternalIPs: flags.allowedExternalIps ?? kubeIPVS.allowedExternalIPs,
      allowedLoadBalancerIPs: flags.allowedLoadBalancerIps ?? kubeIPVS.allowedLoadBalancerIPs,
      allowProtectedExternalIPs: flags.allowProtectedExternalIps ?? kubeIPVS.allowProtectedExternalIPs,
      maxFrontendsPerService: flags.maxFrontendsPerService ?? kubeIPVS.maxFrontendsPerService,
      serviceMetricsLimit: flags.serviceMetricsLimit ?? kubeIPVS.serviceMetricsLimit,
    },
  }
}

/** An empty flag is as good as none, but one of nothing than spaces is a mistake. */
export function nameError({ hostnameOverride: name }: ConfigurationFlags): string | undefined {
  return name === undefined || name === '' || name.trim() !== '' ? undefined : 'empty hostname-override is invalid'
}

/** The name of the Node object: the configured name trimmed and in lower case, else the host's name likewise. */
export function nodeName(configuration: Pick<UncheckedConfiguration, 'hostnameOverride'>, hostName: string): string {
  return (configuration.hostnameOverride.trim() || hostName.trim()).toLowerCase()
}
