/**
 * Rules of a configuration beyond its shape, in kube-proxy's order and words (recorded from v1.36).
 * What could break: people and tools know these texts and their order; paths are those of kube-proxy's internal type.
 */
import { quote } from '../values/quote.ts'
import { familyOf, parseAddressSloppy } from '../values/address.ts'
import { parseCidr } from '../values/cidr.ts'
import { formatDuration } from './duration.ts'
import { NODE_PORT_WORDS } from '../service/node-addresses.ts'
import { splitHostPort } from './host-port.ts'
import type { UncheckedConfiguration } from './types.ts'
import { KUBE_PROXY_RELEASE } from '../values/well-known.ts'

/** One broken rule: `path: reason`, where the reason names the value. */
export interface RuleViolation {
  readonly path: string
  readonly reason: string
}

const ROOT = 'KubeProxyConfiguration'
/** The modes of kube-proxy on Linux; which of them we have is said when one is started. */
const MODES: readonly string[] = ['iptables', 'ipvs', 'nftables']
const LOCAL_MODES = ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix', '']
const NEWER_MINOR = /^1\.(3[6-9]|[4-9]\d)$/
const CIDR_PAIR =
  'must be a either a single CIDR or dual-stack pair of CIDRs (e.g. [10.100.0.0/16, fde4:8dba:82e1::/48]'
const CIDR_BLOCK = 'must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)'

function invalid(path: string, value: unknown, reason: string): RuleViolation {
  return {
    path: `${ROOT}.${path}`,
    reason: `Invalid value: ${typeof value === 'string' ? quote(value) : JSON.stringify(value)}: ${reason}`,
  }
}

/** Everything wrong with a completed configuration, in kube-proxy's order; empty when it is good. */
export function validateConfiguration(configuration: UncheckedConfiguration): readonly RuleViolation[] {
  const { iptables, ipvs, nftables, mode } = configuration
  return [
    ...bit('KubeProxyIPTablesConfiguration.MasqueradeBit', iptables.masqueradeBit),
    ...(mode === 'ipvs' ? ipvsRules(ipvs) : []),
    ...(mode === 'nftables' ? bit('KubeProxyNFTablesConfiguration.MasqueradeBit', nftables.masqueradeBit) : []),
    ...conntrackRules(configuration.conntrack),
    ...within('KubeProxyLinuxConfiguration.OOMScoreAdj', configuration.oomScoreAdj, -1000, 1000),
    ...modeRules(mode),
    ...notNegative('ClientConnection.Burst', configuration.clientConnection.burst),
    ...(configuration.configSyncPeriodMs > 0
      ? []
      : [invalid('ConfigSyncPeriod', formatDuration(configuration.configSyncPeriodMs), 'must be greater than 0')]),
    ...periodRules(mode === 'ipvs' ? ipvs : mode === 'nftables' ? nftables : iptables),
    ...(parseAddressSloppy(configuration.bindAddress) === undefined
      ? [invalid('BindAddress', configuration.bindAddress, 'not a valid textual representation of an IP address')]
      : []),
    ...(configuration.healthzBindAddress === ''
      ? []
      : hostPort('HealthzBindAddress', configuration.healthzBindAddress)),
    ...hostPort('MetricsBindAddress', configuration.metricsBindAddress),
    ...nodePortAddressRules(configuration.nodePortAddresses),
    ...hiddenMetrics(configuration.showHiddenMetricsForVersion),
    ...localTrafficRules(configuration),
    ...ownRules(configuration.kubeIPVS),
  ]
}

function within(path: string, value: number, low: number, high: number): RuleViolation[] {
  return value >= low && value <= high ? [] : [invalid(path, value, `must be within the range [${low}, ${high}]`)]
}

function bit(path: string, value: number): RuleViolation[] {
  return within(path, value, 0, 31)
}

function notNegative(path: string, value: number): RuleViolation[] {
  return value >= 0 ? [] : [invalid(path, value, 'must be greater than or equal to 0')]
}

function notNegativeDuration(path: string, milliseconds: number): RuleViolation[] {
  return milliseconds >= 0 ? [] : [invalid(path, formatDuration(milliseconds), 'must be greater than or equal to 0')]
}

function ipvsRules(ipvs: UncheckedConfiguration['ipvs']): RuleViolation[] {
  const path = 'KubeProxyIPVSConfiguration'
  return [
    ...notNegativeDuration(`${path}.TCPTimeout`, ipvs.tcpTimeoutMs),
    ...notNegativeDuration(`${path}.TCPFinTimeout`, ipvs.tcpFinTimeoutMs),
    ...notNegativeDuration(`${path}.UDPTimeout`, ipvs.udpTimeoutMs),
    ...ipvs.excludeCIDRs.flatMap((cidr, index) =>
      parseCidr(cidr) === undefined ? [invalid(`${path}.ExcludeCidrs[${index}]`, cidr, 'must be a valid CIDR')] : [],
    ),
  ]
}

function conntrackRules(conntrack: UncheckedConfiguration['conntrack']): RuleViolation[] {
  const path = 'KubeProxyLinuxConfiguration.KubeProxyConntrackConfiguration'
  return [
    ...notNegative(`${path}.MaxPerCore`, conntrack.maxPerCore),
    ...notNegative(`${path}.Min`, conntrack.min),
    ...notNegativeDuration(`${path}.TCPEstablishedTimeout`, conntrack.tcpEstablishedTimeoutMs),
    ...notNegativeDuration(`${path}.TCPCloseWaitTimeout`, conntrack.tcpCloseWaitTimeoutMs),
    ...notNegativeDuration(`${path}.UDPTimeout`, conntrack.udpTimeoutMs),
    ...notNegativeDuration(`${path}.UDPStreamTimeout`, conntrack.udpStreamTimeoutMs),
  ]
}

function modeRules(mode: string): RuleViolation[] {
  if (MODES.includes(mode)) return []
  const reason = 'must be iptables, ipvs, nftables or blank (blank means the best-available proxy [currently iptables])'
  return [invalid('Mode.ProxyMode', mode, reason)]
}

function periodRules(block: { readonly syncPeriodMs: number; readonly minSyncPeriodMs: number }): RuleViolation[] {
  const { syncPeriodMs, minSyncPeriodMs } = block
  return [
    ...(syncPeriodMs > 0 ? [] : [invalid('SyncPeriod', formatDuration(syncPeriodMs), 'must be greater than 0')]),
    ...notNegativeDuration('MinSyncPeriod', minSyncPeriodMs),
    // kube-proxy prints the other one's value here.
    ...(syncPeriodMs >= minSyncPeriodMs
      ? []
      : [
          invalid(
            'SyncPeriod',
            formatDuration(minSyncPeriodMs),
            `must be greater than or equal to ${ROOT}.MinSyncPeriod`,
          ),
        ]),
  ]
}

function hostPort(path: string, text: string): RuleViolation[] {
  const split = splitHostPort(text)
  if ('error' in split) return [invalid(path, text, 'must be IP:port')]
  const { host, port } = split
  const number = /^[+-]?\d+$/.test(port) ? Number(port) : Number.NaN
  return [
    ...(parseAddressSloppy(host) === undefined ? [invalid(path, host, 'must be a valid IP')] : []),
    ...(number >= 1 && number <= 65_535 ? [] : [invalid(path, port, 'must be a valid port')]),
  ]
}

function hiddenMetrics(version: string): RuleViolation[] {
  if (version === '' || version === KUBE_PROXY_RELEASE.previousMinorVersion || NEWER_MINOR.test(version)) return []
  const name = 'showHiddenMetricsForVersion'
  const inner = `must be omitted or have the value '${KUBE_PROXY_RELEASE.previousMinorVersion}'; only the previous minor version is allowed`
  return [
    invalid(
      'ShowHiddenMetricsForVersion',
      version,
      `invalid ${name}: ${name}: Invalid value: ${quote(version)}: ${inner}`,
    ),
  ]
}

function nodePortAddressRules(addresses: readonly string[]): RuleViolation[] {
  return addresses.flatMap((address, index) => {
    const path = `NodePortAddresses[${index}]`
    if (NODE_PORT_WORDS.includes(address))
      return addresses.indexOf(address) === index
        ? []
        : [{ path: `${ROOT}.${path}`, reason: `Duplicate value: ${quote(address)}` }]
    return parseCidr(address) === undefined ? [invalid(path, address, 'must be a valid CIDR')] : []
  })
}

function localTrafficRules(configuration: UncheckedConfiguration): RuleViolation[] {
  const { clusterCIDR, detectLocal, detectLocalMode } = configuration
  const path = 'DetectLocalConfiguration'
  switch (detectLocalMode) {
    case 'ClusterCIDR':
      // An empty flag is a list of one empty text to kube-proxy; an empty field is no list.
      return clusterCIDR === '' && !configuration.clusterCIDRGiven ? [] : clusterCidrRules(clusterCIDR.split(','))
    case 'BridgeInterface':
      return detectLocal.bridgeInterface === '' ? [invalid(`${path}.InterfaceName`, '', 'must not be empty')] : []
    case 'InterfaceNamePrefix':
      return detectLocal.interfaceNamePrefix === '' ? [invalid(`${path}.InterfacePrefix`, '', 'must not be empty')] : []
    case 'NodeCIDR':
      return []
    default: {
      const supported = LOCAL_MODES.map(quote).join(', ')
      const reason = `Unsupported value: ${quote(detectLocalMode)}: supported values: ${supported}`
      return [{ path: `${ROOT}.DetectLocalMode`, reason }]
    }
  }
}

function clusterCidrRules(cidrs: readonly string[]): RuleViolation[] {
  const path = 'DetectLocalConfiguration.ClusterCIDRs'
  if (cidrs.length > 2) return [invalid(path, cidrs, CIDR_PAIR)]
  const parsed = cidrs.map((cidr) => parseCidr(cidr))
  const broken = cidrs.flatMap((cidr, index) =>
    parsed[index] === undefined ? [invalid(`${path}[${index}]`, cidr, CIDR_BLOCK)] : [],
  )
  if (broken.length > 0) return broken
  const families = new Set(parsed.map((cidr) => (cidr === undefined ? '' : familyOf(cidr.address))))
  return cidrs.length === families.size ? [] : [invalid(path, cidrs, CIDR_PAIR)]
}

function ownRules(own: UncheckedConfiguration['kubeIPVS']): RuleViolation[] {
  const { drainDeadlineMs, allowedExternalIPs = [], allowedLoadBalancerIPs = [] } = own
  const { maxFrontendsPerService, serviceMetricsLimit } = own
  const path = 'kubeIPVS'
  const ranges = (name: string, cidrs: readonly string[]): RuleViolation[] =>
    cidrs.flatMap((cidr, index) =>
      parseCidr(cidr) === undefined ? [invalid(`${path}.${name}[${index}]`, cidr, 'must be a valid CIDR')] : [],
    )
  return [
    ...notNegativeDuration(`${path}.drainDeadline`, drainDeadlineMs),
    ...notNegative(`${path}.serviceMetricsLimit`, serviceMetricsLimit),
    ...(maxFrontendsPerService < 1
      ? [invalid(`${path}.maxFrontendsPerService`, maxFrontendsPerService, 'must be greater than 0')]
      : []),
    ...ranges('allowedExternalIPs', allowedExternalIPs),
    ...ranges('allowedLoadBalancerIPs', allowedLoadBalancerIPs),
  ]
}
