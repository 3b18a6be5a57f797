/**
 * KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1) as the program holds it: every field present, defaults filled in.
 * What could break: names are those of v1alpha1, except that durations end in `Ms`; `write.ts` relies on that suffix.
 */

export type ProxyMode = 'ipvs' | 'iptables'
export type DetectLocalMode = 'ClusterCIDR' | 'NodeCIDR' | 'BridgeInterface' | 'InterfaceNamePrefix'
export type LogFormat = 'text' | 'json'

/** How to talk to the API server (component-base ClientConnectionConfiguration). */
export interface ClientConnection {
  /** Path of a kubeconfig; '' = in-cluster configuration. */
  readonly kubeconfig: string
  readonly acceptContentTypes: string
  readonly contentType: string
  /** Requests a second and burst of the client's rate limit. */
  readonly qps: number
  readonly burst: number
}

/** Size and timeouts of the connection tracking table. A timeout of 0 leaves the kernel's value as it is. */
export interface ConntrackSettings {
  /** 0 = leave the limit as it is, whatever `min` says. */
  readonly maxPerCore: number
  readonly min: number
  readonly tcpEstablishedTimeoutMs: number
  readonly tcpCloseWaitTimeoutMs: number
  readonly tcpBeLiberal: boolean
  readonly udpTimeoutMs: number
  readonly udpStreamTimeoutMs: number
}

/** Also read in ipvs mode: `masqueradeBit` and `masqueradeAll`. The periods are 0 in every mode but iptables. */
export interface IptablesSettings {
  /** Bit of the packet mark that asks for masquerading, 0-31. */
  readonly masqueradeBit: number
  readonly masqueradeAll: boolean
  readonly localhostNodePorts: boolean
  readonly syncPeriodMs: number
  readonly minSyncPeriodMs: number
}

/** The periods are 0 in every mode but ipvs. */
export interface IpvsSettings {
  /** How long a difference that nothing announces may stay unnoticed. */
  readonly syncPeriodMs: number
  /** Shortest time between two passes; 0 = as soon as something changes. */
  readonly minSyncPeriodMs: number
  /** Kernel scheduler; '' = rr. */
  readonly scheduler: string
  /** Virtual servers whose address lies in one of these are never removed. As written: host bits may be set. */
  readonly excludeCIDRs: readonly string[]
  readonly strictARP: boolean
  /** IPVS timeouts (IPVS_CMD_SET_CONFIG), 0 = leave as they are. */
  readonly tcpTimeoutMs: number
  readonly tcpFinTimeoutMs: number
  readonly udpTimeoutMs: number
}

/** Accepted so that a file of another proxy loads; nothing here is used. */
export interface NftablesSettings {
  readonly masqueradeBit: number
  readonly masqueradeAll: boolean
  readonly syncPeriodMs: number
  readonly minSyncPeriodMs: number
}

/** Accepted so that a shared file loads; nothing here is used on Linux. */
export interface WinkernelSettings {
  readonly networkName: string
  readonly sourceVip: string
  readonly enableDSR: boolean
  readonly rootHnsEndpointName: string
  readonly forwardHealthCheckVip: boolean
}

/** Splitting and buffering of output streams (alpha in Kubernetes); accepted, not used. */
export interface LogStreamOptions {
  readonly splitStream: boolean
  readonly infoBufferSize: string
}

/** A verbosity of their own for components whose name fits the pattern. */
export interface VmoduleItem {
  readonly filePattern: string
  readonly verbosity: number
}

/** component-base LoggingConfiguration. */
export interface LoggingSettings {
  readonly format: LogFormat
  readonly flushFrequencyMs: number
  /** It was given as a number of nanoseconds, and is written back as one. */
  readonly flushFrequencyAsNumber: boolean
  /** klog's -v */
  readonly verbosity: number
  readonly vmodule: readonly VmoduleItem[]
  readonly options: { readonly text: LogStreamOptions; readonly json: LogStreamOptions }
}

/** What only kube-ipvs knows (src/config/kube-ipvs.ts). */
export interface KubeIpvsSettings {
  /** A draining real server goes after this time at the latest; 0 = when its connections have ended. */
  readonly drainDeadlineMs: number
  /** Where externalIPs may lie; undefined = anywhere. As written: host bits may be set. */
  readonly allowedExternalIPs: readonly string[] | undefined
  /** Where load-balancer addresses may lie, likewise. */
  readonly allowedLoadBalancerIPs: readonly string[] | undefined
  /** Whether an externalIP may be an address that this node lives by: its own, its gateways', the API server's, the resolvers'. */
  readonly allowProtectedExternalIPs: boolean
  /** Frontends a Service may have, at least 1. */
  readonly maxFrontendsPerService: number
  /** Services that get metrics of their traffic of their own; 0 = none. */
  readonly serviceMetricsLimit: number
}

export interface KubeProxyConfiguration {
  readonly featureGates: Readonly<Record<string, boolean>>
  readonly clientConnection: ClientConnection
  readonly logging: LoggingSettings
  /** As written; the node name is this one trimmed and in lower case. '' = the host's name. */
  readonly hostnameOverride: string
  /** Decides the primary family and replaces the node IP of its family, unless 0.0.0.0 or ::. Nothing is bound to it. */
  readonly bindAddress: string
  /** `IP:port` of /healthz and /livez. */
  readonly healthzBindAddress: string
  /** `IP:port` of /metrics. */
  readonly metricsBindAddress: string
  readonly bindAddressHardFail: boolean
  readonly enableProfiling: boolean
  readonly showHiddenMetricsForVersion: string
  readonly mode: ProxyMode
  readonly iptables: IptablesSettings
  readonly ipvs: IpvsSettings
  readonly nftables: NftablesSettings
  readonly winkernel: WinkernelSettings
  readonly detectLocalMode: DetectLocalMode
  readonly detectLocal: { readonly bridgeInterface: string; readonly interfaceNamePrefix: string }
  /** One CIDR, or one of each family separated by a comma; '' = not known. */
  readonly clusterCIDR: string
  /** CIDRs (host bits may be set) and the words `primary`, `localhost`, `all`. Empty = every address of the node. */
  readonly nodePortAddresses: readonly string[]
  readonly oomScoreAdj: number
  readonly conntrack: ConntrackSettings
  readonly configSyncPeriodMs: number
  /** Always '': kube-proxy reads it, checks its type and forgets it. */
  readonly portRange: string
  readonly windowsRunAsService: boolean
  readonly kubeIPVS: KubeIpvsSettings
}

/** A configuration whose words are not checked yet: any text may stand where only a few words are allowed. */
export type UncheckedConfiguration = Omit<KubeProxyConfiguration, 'mode' | 'detectLocalMode' | 'logging'> & {
  readonly mode: string
  readonly detectLocalMode: string
  /** Given as a flag, where '' is not the same as none. */
  readonly clusterCIDRGiven?: boolean
  readonly logging: Omit<LoggingSettings, 'format'> & { readonly format: string }
}
