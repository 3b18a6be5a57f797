/**
 * The v1alpha1 KubeProxyConfiguration document: every field with what it is for, its unit, default and rule.
 * What could break: defaults that depend on other fields come in complete.ts, rules between fields are in validate.ts.
 */
import type * as z from 'zod'
import {
  block,
  blocks,
  duration,
  type Field,
  flag,
  flushFrequency,
  gates,
  int32,
  level,
  nonZeroFloat32,
  nonZeroInt32,
  optionalDuration,
  quantity,
  text,
  texts,
  textOr,
} from './field.ts'
import { kubeIpvs } from './kube-ipvs.ts'

/** Fields that Kubernetes embeds show up in its error texts with the name of what embeds them. */
const routing = {
  splitStream: {
    ...flag({ doc: 'Errors to standard error and the rest to standard output. No effect here.' }),
    goName: 'OutputRoutingOptions.splitStream',
  },
  infoBufferSize: {
    ...quantity({ doc: 'Bytes to collect before writing. No effect here: every line is written at once.' }),
    goName: 'OutputRoutingOptions.infoBufferSize',
  },
}

const clientConnection = block('v1alpha1.ClientConnectionConfiguration', 'How to talk to the API server.', {
  kubeconfig: text({ doc: 'Path of a kubeconfig. Empty: in-cluster configuration.' }),
  acceptContentTypes: text({ doc: 'Accept header of requests. Empty: made of contentType.' }),
  contentType: textOr('application/vnd.kubernetes.protobuf', { doc: 'Encoding to ask the API server for.' }),
  qps: nonZeroFloat32(5, { doc: 'Events sent to the API server, on average.', unit: 'requests a second' }),
  burst: nonZeroInt32(10, { doc: 'Events sent to the API server at once.', unit: 'requests', rule: '0 or more' }),
})

const vmoduleItem = {
  go: 'v1.VModuleItem',
  fields: {
    filePattern: text({ doc: 'Name of a component, * and ? allowed.', rule: 'not empty, no = and no comma' }),
    verbosity: level({ doc: 'Verbosity of what matches.' }),
  },
}

const logging = block('v1.LoggingConfiguration', 'The log on standard error.', {
  format: textOr('text', { doc: 'text or json.', rule: 'text or json' }),
  flushFrequency: flushFrequency(5_000, { doc: 'No effect here: every line is written at once.', rule: 'more than 0' }),
  verbosity: level({ doc: '0 the most important lines, 2 every change, 4 debugging.' }),
  vmodule: blocks('v1.VModuleConfiguration', { doc: 'Verbosity by component.', rule: 'text format only' }, vmoduleItem),
  options: block('v1.FormatOptions', 'Needs the feature gate LoggingAlphaOptions.', {
    text: block('v1.TextOptions', 'Of the text format.', routing),
    json: block('v1.JSONOptions', 'Of the JSON format.', routing),
  }),
})

const periods = {
  syncPeriod: duration({
    doc: 'How long a difference that nothing announces may stay.',
    default: '30s',
    rule: 'more than 0',
  }),
  minSyncPeriod: duration({ doc: 'Shortest time between two passes.', rule: '0 or more, at most syncPeriod' }),
}

const masqueradeBit = int32(14, { doc: 'Bit of the packet mark that asks for masquerading.', rule: '0 to 31' })

const iptables = block('v1alpha1.KubeProxyIPTablesConfiguration', 'iptables mode; the first two also in ipvs mode.', {
  masqueradeBit,
  masqueradeAll: flag({ doc: 'Masquerade everything that goes to a ClusterIP.' }),
  localhostNodePorts: flag({ doc: 'Node ports answer on 127.0.0.1, in iptables mode.' }, true),
  ...periods,
})

const ipvs = block('v1alpha1.KubeProxyIPVSConfiguration', 'ipvs mode.', {
  ...periods,
  scheduler: text({ doc: 'Kernel scheduler of virtual servers. Empty: rr.' }),
  excludeCIDRs: texts({ doc: 'Virtual servers with an address in one of these are never removed.', rule: 'CIDRs' }),
  strictARP: flag({ doc: 'Set arp_ignore to 1 and arp_announce to 2.' }),
  tcpTimeout: duration({ doc: 'Timeout of idle TCP connections; 0 leaves the kernel alone.', rule: '0 or more' }),
  tcpFinTimeout: duration({
    doc: 'Timeout of TCP connections after a FIN; 0 leaves the kernel alone.',
    rule: '0 or more',
  }),
  udpTimeout: duration({ doc: 'Timeout of UDP flows; 0 leaves the kernel alone.', rule: '0 or more' }),
})

const nftables = block('v1alpha1.KubeProxyNFTablesConfiguration', 'nftables mode, which kube-ipvs does not have.', {
  masqueradeBit,
  masqueradeAll: flag({ doc: 'No effect here.' }),
  ...periods,
})

const HOUR_MS = 3_600_000

const conntrack = block('v1alpha1.KubeProxyConntrackConfiguration', 'The connection tracking table of the kernel.', {
  maxPerCore: int32(32_768, { doc: 'Connections for each processor; 0 leaves the limit as it is.', rule: '0 or more' }),
  min: int32(131_072, { doc: 'Connections at least, whatever maxPerCore says.', rule: '0 or more' }),
  tcpEstablishedTimeout: optionalDuration(24 * HOUR_MS, {
    doc: 'Timeout of idle established TCP connections; 0 leaves the kernel alone.',
    default: '24h0m0s',
    rule: '0 or more',
  }),
  tcpCloseWaitTimeout: optionalDuration(HOUR_MS, {
    doc: 'Timeout of TCP connections in CLOSE_WAIT; 0 leaves the kernel alone.',
    default: '1h0m0s',
    rule: '0 or more',
  }),
  tcpBeLiberal: flag({ doc: 'Set nf_conntrack_tcp_be_liberal to 1.' }),
  udpTimeout: duration({
    doc: 'Timeout of UDP flows without an answer; 0 leaves the kernel alone.',
    rule: '0 or more',
  }),
  udpStreamTimeout: duration({
    doc: 'Timeout of UDP flows with answers; 0 leaves the kernel alone.',
    rule: '0 or more',
  }),
})

const winkernel = block('v1alpha1.KubeProxyWinkernelConfiguration', 'Windows. No effect here.', {
  networkName: text({ doc: 'No effect here.' }),
  sourceVip: text({ doc: 'No effect here.' }),
  enableDSR: flag({ doc: 'No effect here.' }),
  rootHnsEndpointName: text({ doc: 'No effect here.' }),
  forwardHealthCheckVip: flag({ doc: 'No effect here.' }),
})

/** Every field of the document beside apiVersion and kind, by name. */
const fields = {
  apiVersion: text({ doc: 'kubeproxy.config.k8s.io/v1alpha1' }),
  kind: text({ doc: 'KubeProxyConfiguration' }),
  featureGates: gates({
    doc: 'Checked as in Kubernetes. Those with an effect here: AllowServiceExternalIPs, LoggingAlphaOptions, LoggingBetaOptions.',
  }),
  clientConnection,
  logging,
  hostnameOverride: text({ doc: 'Name of the Node object of this machine. Empty: the host name.' }),
  bindAddress: text({
    doc: 'Decides the primary family, and is the node IP of its family unless it is 0.0.0.0 or ::. Nothing is bound to it.',
    default: '0.0.0.0',
    rule: 'an address',
  }),
  healthzBindAddress: text({
    doc: 'Where /healthz and /livez are served. An address alone gets the port 10256.',
    default: '0.0.0.0:10256, or [::]:10256 when bindAddress is IPv6',
    rule: 'address:port',
  }),
  metricsBindAddress: text({
    doc: 'Where /metrics is served. An address alone gets the port 10249.',
    default: '127.0.0.1:10249, or [::1]:10249 when bindAddress is IPv6',
    rule: 'address:port',
  }),
  bindAddressHardFail: flag({ doc: 'A port that cannot be opened ends the process.' }),
  enableProfiling: flag({ doc: 'Serve profiles beside /metrics.' }),
  showHiddenMetricsForVersion: text({
    doc: 'No effect here: no metric is hidden.',
    rule: 'empty, 1.35 or a later release',
  }),
  mode: text(
    { doc: 'ipvs or iptables. Empty: iptables.', default: 'iptables', rule: 'ipvs or iptables' },
    'v1alpha1.ProxyMode',
  ),
  iptables,
  ipvs,
  nftables,
  winkernel,
  detectLocalMode: text(
    {
      doc: 'How traffic from Pods of this node is known.',
      default: 'ClusterCIDR',
      rule: 'ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix',
    },
    'v1alpha1.LocalMode',
  ),
  detectLocal: block('v1alpha1.DetectLocalConfiguration', 'For two of the modes of detectLocalMode.', {
    bridgeInterface: text({ doc: 'The bridge of the Pods.', rule: 'not empty in mode BridgeInterface' }),
    interfaceNamePrefix: text({ doc: 'How interfaces of Pods begin.', rule: 'not empty in mode InterfaceNamePrefix' }),
  }),
  clusterCIDR: text({ doc: 'Addresses of Pods: one CIDR, or one of each family.', rule: 'CIDRs, in mode ClusterCIDR' }),
  nodePortAddresses: texts({
    doc: 'Addresses of the node that node ports answer on. Empty: all. primary: those of the Node object. localhost: 127.0.0.0/8 and ::1, in iptables mode only. all: every address.',
    rule: 'CIDRs, and the words primary, localhost, all',
  }),
  oomScoreAdj: int32(-999, { doc: 'How unwilling the kernel is to end this process.', rule: '-1000 to 1000' }),
  conntrack,
  configSyncPeriod: duration(
    {
      doc: 'How often everything is listed anew in kube-proxy. No effect here.',
      default: '15m0s',
      rule: 'more than 0',
    },
    15 * 60_000,
  ),
  portRange: text({ doc: 'No effect, here as in kube-proxy.' }),
  windowsRunAsService: flag({ doc: 'No effect here.' }),
}

/** The document with names and types for error texts and documentation. */
export const DOCUMENT: Pick<Field, 'go' | 'doc' | 'fields'> = {
  doc: '',
  go: 'v1alpha1.KubeProxyConfiguration',
  fields: { ...fields, kubeIPVS: kubeIpvs },
}

/** The whole document; from-document.ts makes of it what the program holds. */
export const documentSchema = block(DOCUMENT.go, '', { ...fields, kubeIPVS: kubeIpvs }).schema

export type ParsedDocument = z.output<typeof documentSchema>
