/**
 * Rules of a configuration beyond its shape, in kube-proxy's order and words (recorded from v1.37).
 * Rules of single values are in the table of fields; here are their order, kube-proxy's internal
 * names of the fields, and the rules between fields.
 */
import { quote } from '../values/quote.ts'
import { familyOf, parseAddressSloppy } from '../values/address.ts'
import { parseCidr } from '../values/cidr.ts'
import { formatDuration } from '../values/duration.ts'
import { NODE_PORT_WORDS } from '../service/node-addresses.ts'
import { FIELDS } from './fields.ts'
import { gate, refusesIpvs } from './gates.ts'
import { splitHostPort } from './go-text.ts'
import { isZeroQuantity } from './quantity.ts'
import type { FieldPath, UncheckedConfiguration } from './types.ts'
import { FIELD_PATHS, fieldAt, isDuration, valueOf } from './values.ts'
import { KUBE_PROXY_RELEASE } from '../values/well-known.ts'

/** One broken rule: `path: reason`, where the reason names the value. */
export interface RuleViolation {
  readonly path: string
  readonly reason: string
}

const ROOT = 'KubeProxyConfiguration'
/** The modes of kube-proxy on Linux; `load.ts` refuses the one that kube-ipvs does not have. */
const MODES: readonly string[] = ['iptables', 'ipvs', 'nftables']
const LOCAL_MODES = [...FIELDS.detectLocalMode.words, '']
/**
 * A pattern of what showHiddenMetricsForVersion may say: nothing, the previous minor release, or
 * one that may not exist yet.
 */
export const HIDDEN_METRICS_RELEASE = releasePattern(KUBE_PROXY_RELEASE)

function releasePattern({ previousMinorVersion, minor }: typeof KUBE_PROXY_RELEASE): string {
  const [tens, ones] = [Math.floor(Number(minor) / 10), Number(minor) % 10]
  return `^(?:|${previousMinorVersion.replace('.', '[.]')}|1[.](?:${tens}[${ones}-9]|[${tens + 1}-9][0-9]))$`
}

const CIDR_PAIR =
  'must be a either a single CIDR or dual-stack pair of CIDRs (e.g. [10.100.0.0/16, fde4:8dba:82e1::/48]'
const CIDR_BLOCK = 'must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)'

function invalid(path: string, value: unknown, reason: string): RuleViolation {
  return {
    path: `${ROOT}.${path}`,
    reason: `Invalid value: ${typeof value === 'string' ? quote(value) : JSON.stringify(value)}: ${reason}`,
  }
}

/** All broken rules of a completed configuration, in kube-proxy's order. */
export function validateConfiguration(configuration: UncheckedConfiguration): readonly RuleViolation[] {
  const { mode, healthzBindAddress } = configuration
  const check = (path: FieldPath, name: string) => checkField(configuration, path, name)
  const LINUX = 'KubeProxyLinuxConfiguration'
  return [
    ...check('iptables.masqueradeBit', 'KubeProxyIPTablesConfiguration.MasqueradeBit'),
    ...(mode === 'ipvs' ? IPVS_NAMES.flatMap(([path, name]) => check(path, `KubeProxyIPVSConfiguration.${name}`)) : []),
    ...(mode === 'nftables' ? check('nftables.masqueradeBit', 'KubeProxyNFTablesConfiguration.MasqueradeBit') : []),
    ...CONNTRACK_NAMES.flatMap(([path, name]) => check(path, `${LINUX}.KubeProxyConntrackConfiguration.${name}`)),
    ...check('oomScoreAdj', `${LINUX}.OOMScoreAdj`),
    ...modeRules(configuration),
    ...check('clientConnection.burst', 'ClientConnection.Burst'),
    ...check('configSyncPeriod', 'ConfigSyncPeriod'),
    ...periodRules(configuration),
    ...check('bindAddress', 'BindAddress'),
    ...(healthzBindAddress === '' ? [] : check('healthzBindAddress', 'HealthzBindAddress')),
    ...check('metricsBindAddress', 'MetricsBindAddress'),
    ...nodePortAddressRules(configuration.nodePortAddresses),
    ...hiddenMetrics(configuration.showHiddenMetricsForVersion),
    ...localTrafficRules(configuration),
    ...FIELD_PATHS.flatMap((path) =>
      path.startsWith('kubeIPVS.') ? [...check(path, path), ...wordRules(configuration, path)] : [],
    ),
  ]
}

type Names = readonly (readonly [path: FieldPath, name: string])[]

const IPVS_NAMES: Names = [
  ['ipvs.tcpTimeout', 'TCPTimeout'],
  ['ipvs.tcpFinTimeout', 'TCPFinTimeout'],
  ['ipvs.udpTimeout', 'UDPTimeout'],
  ['ipvs.excludeCIDRs', 'ExcludeCidrs'],
]

const CONNTRACK_NAMES: Names = [
  ['conntrack.maxPerCore', 'MaxPerCore'],
  ['conntrack.min', 'Min'],
  ['conntrack.tcpEstablishedTimeout', 'TCPEstablishedTimeout'],
  ['conntrack.tcpCloseWaitTimeout', 'TCPCloseWaitTimeout'],
  ['conntrack.udpTimeout', 'UDPTimeout'],
  ['conntrack.udpStreamTimeout', 'UDPStreamTimeout'],
]

/** Linux takes 107 bytes (`sun_path` in unix(7)); printable ASCII, so that each character is one of them. */
export const SOCKET_PATH = /^(?:|\/[!-~]{1,106})$/
const NO_SOCKET_PATH = 'must be an absolute path of at most 107 printable ASCII characters without spaces, or empty'

/** Checks the rule of the field's row; `name` is kube-proxy's internal path of the field. */
function checkField(configuration: UncheckedConfiguration, path: FieldPath, name: string): RuleViolation[] {
  const { rule, kind } = fieldAt(path)
  const value = valueOf(configuration, path)
  const shown = isDuration(kind) ? formatDuration(Number(value)) : value
  switch (rule) {
    case undefined:
      return []
    case 'notNegative':
      return Number(value) >= 0 ? [] : [invalid(name, shown, 'must be greater than or equal to 0')]
    case 'positive':
      return Number(value) > 0 ? [] : [invalid(name, shown, 'must be greater than 0')]
    case 'address':
      return parseAddressSloppy(String(value)) === undefined
        ? [invalid(name, value, 'not a valid textual representation of an IP address')]
        : []
    case 'addressPort':
      return hostPort(name, String(value))
    case 'cidrs':
      return (Array.isArray(value) ? value.map(String) : []).flatMap((cidr, index) =>
        parseCidr(cidr) === undefined ? [invalid(`${name}[${index}]`, cidr, 'must be a valid CIDR')] : [],
      )
    case 'socketPath':
      return SOCKET_PATH.test(String(value)) ? [] : [invalid(name, value, NO_SOCKET_PATH)]
    default: {
      const [low, high] = rule
      const isWithin = Number(value) >= low && Number(value) <= high
      return isWithin ? [] : [invalid(name, value, `must be within the range [${low}, ${high}]`)]
    }
  }
}

/** Checks that a field of few words has one of them. */
function wordRules(configuration: UncheckedConfiguration, path: FieldPath): RuleViolation[] {
  const { words } = fieldAt(path)
  const value = String(valueOf(configuration, path))
  if (words === undefined || words.includes(value)) return []
  const reason = `Unsupported value: ${quote(value)}: supported values: ${words.map(quote).join(', ')}`
  return [{ path: `${ROOT}.${path}`, reason }]
}

function modeRules(configuration: UncheckedConfiguration): RuleViolation[] {
  const { mode } = configuration
  const modes = refusesIpvs(configuration) ? MODES.filter((one) => one !== 'ipvs') : MODES
  if (modes.includes(mode)) return []
  const reason = `must be ${modes.join(', ')} or blank (blank means the best-available proxy [currently iptables])`
  return [invalid('Mode.ProxyMode', mode, reason)]
}

/** The periods of the mode; an unknown mode has those of iptables. */
function periodRules(configuration: UncheckedConfiguration): RuleViolation[] {
  const { mode } = configuration
  const block = mode === 'ipvs' || mode === 'nftables' ? mode : 'iptables'
  const { syncPeriodMs, minSyncPeriodMs } = configuration[block]
  // kube-proxy prints the value of the other field here.
  const shown = formatDuration(minSyncPeriodMs)
  return [
    ...checkField(configuration, `${block}.syncPeriod`, 'SyncPeriod'),
    ...checkField(configuration, `${block}.minSyncPeriod`, 'MinSyncPeriod'),
    ...(syncPeriodMs >= minSyncPeriodMs
      ? []
      : [invalid('SyncPeriod', shown, `must be greater than or equal to ${ROOT}.MinSyncPeriod`)]),
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
  if (new RegExp(HIDDEN_METRICS_RELEASE).test(version)) return []
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
  const words = NODE_PORT_WORDS.map((word) => `'${word}'`).join(', ')
  return addresses.flatMap((address, index) => {
    const path = `NodePortAddresses[${index}]`
    if (NODE_PORT_WORDS.includes(address))
      return addresses.indexOf(address) === index
        ? []
        : [{ path: `${ROOT}.${path}`, reason: `Duplicate value: ${quote(address)}` }]
    return parseCidr(address) === undefined
      ? [invalid(path, address, `must be a valid CIDR or one of the keywords ${words}`)]
      : []
  })
}

function localTrafficRules(configuration: UncheckedConfiguration): RuleViolation[] {
  const { clusterCIDR, detectLocal, detectLocalMode } = configuration
  const path = 'DetectLocalConfiguration'
  switch (detectLocalMode) {
    case 'ClusterCIDR':
      // kube-proxy reads an empty flag as a list of one empty text, and an empty field as no list.
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

const MAX_VERBOSE = 0x7fff_ffff

/**
 * All broken rules of the logging block, which kube-proxy checks before all others and under paths
 * of its own, in the order and words of component-base. Options that are alpha in Kubernetes need
 * their feature gate here too.
 */
export function validateLogging(configuration: UncheckedConfiguration): readonly RuleViolation[] {
  const { logging } = configuration
  const { format, flushFrequencyMs, vmodule, verbosity } = logging
  const violations: RuleViolation[] = []
  const add = (field: string, reason: string) => violations.push({ path: `logging.${field}`, reason })
  if (flushFrequencyMs <= 0) {
    const text = logging.flushFrequencyAsNumber
      ? String(Math.round(flushFrequencyMs * 1e6))
      : quote(formatDuration(flushFrequencyMs))
    add('flushFrequency', `Invalid value: ${text}: Must be greater than zero`)
  }
  if (format !== 'text' && format !== 'json') add('format', `Invalid value: ${quote(format)}: Unsupported log format`)
  else if (format === 'json' && !gate(configuration, 'LoggingBetaOptions'))
    add('format', 'Forbidden: Log format json is disabled, see LoggingBetaOptions feature')
  if (verbosity > MAX_VERBOSE) add('verbosity', `Invalid value: ${verbosity}: Must be <= ${MAX_VERBOSE}`)
  if (format !== '' && format !== 'text' && vmodule.length > 0)
    add('vmodule', 'Forbidden: Only supported for text log format')
  for (const [index, item] of vmodule.entries()) {
    const path = `vmodule[${index}]`
    if (item.filePattern === '') add(path, 'Required value: File pattern must not be empty')
    if (/[=,]/.test(item.filePattern)) {
      const value = quote(item.filePattern)
      add(path, `Invalid value: ${value}: File pattern must not contain equal sign or comma`)
    }
    if (item.verbosity > MAX_VERBOSE) add(path, `Invalid value: ${item.verbosity}: Must be <= ${MAX_VERBOSE}`)
  }
  if (!gate(configuration, 'LoggingAlphaOptions')) {
    const disabled = 'Forbidden: Feature LoggingAlphaOptions is disabled'
    for (const name of ['text', 'json'] as const) {
      const options = logging.options[name]
      if (options.splitStream) add(`options.${name}.splitStream`, disabled)
      if (!isZeroQuantity(options.infoBufferSize)) add(`options.${name}.infoBufferSize`, disabled)
    }
  }
  return violations
}
