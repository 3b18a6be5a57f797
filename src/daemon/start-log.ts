/**
 * The lines of a start that operators and their tools search for, in kube-proxy's words, without
 * its warning that ipvs mode is deprecated.
 */
import { familyDoubts, nodePortDoubts } from '../config/doubts.ts'
import { formatDuration } from '../values/duration.ts'
import type { KubeProxyConfiguration, ProxyMode } from '../config/types.ts'
import { FULL_SYNC_MS, periodsOf } from '../modes/mode.ts'
import type { FamilyLack, FamilySupport } from '../node/families.ts'
import { kernelRelease } from '../node/host.ts'
import { nodeIpsOf } from '../service/node-context.ts'
import { familyOf, parseAddressSloppy } from '../values/address.ts'
import { aggregateText, CodedError } from '../values/errors.ts'
import type { Log } from '../values/log.ts'
import type { IpFamily } from '../values/protocol.ts'
import { KUBE_PROXY_RELEASE, VERSION } from '../values/well-known.ts'

/** Logs what is known before the Node is. */
export function logStart(configuration: KubeProxyConfiguration, families: readonly IpFamily[], log: Log): void {
  logMode(configuration.mode, configuration, families, log)
  const program = `kube-ipvs/${VERSION}`
  log.info('Version info', {
    version: KUBE_PROXY_RELEASE.version,
    program,
    kernel: kernelRelease(),
    node: process.version,
  })
}

/**
 * kube-proxy's error where nobody has chosen a mode. It is true of this program too: an operator
 * who means iptables mode has to say so, or the file means another mode in another release.
 */
export const NO_MODE =
  "No kube-proxy mode specified: defaulting to 'iptables'. Note that in Kubernetes 1.40 the default mode will switch to 'nftables'. If you wish to continue using 'iptables' mode, you must explicitly specify 'mode: iptables' in the kube-proxy config file, or '--proxy-mode iptables' on the kube-proxy command line."

type ModeConfiguration = Pick<KubeProxyConfiguration, 'mode' | 'modeIsDefault' | 'ipvs' | 'iptables'>

/** Logs what a mode is configured to do. */
export function logMode(
  mode: ProxyMode,
  configuration: ModeConfiguration,
  families: readonly IpFamily[],
  log: Log,
): void {
  if (mode === 'ipvs') logIpvsMode(configuration.ipvs, families, log)
  else logIptablesMode(configuration, families, log)
}

function logIptablesMode(configuration: ModeConfiguration, families: readonly IpFamily[], log: Log): void {
  if (configuration.modeIsDefault === true) log.error(NO_MODE)
  log.info('Using iptables Proxier')
  const { syncPeriodMs, minSyncPeriodMs } = periodsOf(configuration)
  const [syncPeriod, minSyncPeriod] = [syncPeriodMs, minSyncPeriodMs].map(formatDuration)
  const mark = `0x${((1 << configuration.iptables.masqueradeBit) >>> 0).toString(16).padStart(8, '0')}`
  for (const ipFamily of families) {
    log.verbose(2, 'Using iptables mark for masquerade', { ipFamily, mark })
    const maxSyncPeriod = formatDuration(FULL_SYNC_MS)
    log.verbose(2, 'Iptables sync params', { ipFamily, minSyncPeriod, syncPeriod, maxSyncPeriod })
  }
}

function logIpvsMode(ipvs: KubeProxyConfiguration['ipvs'], families: readonly IpFamily[], log: Log): void {
  const { scheduler, syncPeriodMs, minSyncPeriodMs } = ipvs
  log.info('Using ipvs Proxier')
  const syncPeriod = formatDuration(syncPeriodMs)
  for (const ipFamily of families) {
    if (scheduler === '') log.info('IPVS scheduler not specified, use rr by default', { ipFamily })
    const minSyncPeriod = formatDuration(minSyncPeriodMs)
    log.verbose(2, 'ipvs sync params', { ipFamily, minSyncPeriod, syncPeriod, maxSyncPeriod: syncPeriod })
  }
}

export interface NodeLogOptions {
  readonly configuration: KubeProxyConfiguration
  readonly support: FamilySupport
  /** In kube-proxy's order; none when they are not known. */
  readonly nodeIps: readonly string[]
  readonly podCidrs: readonly string[]
  readonly log: Log
}

/**
 * Logs what is known once the Node is. Returns an error when the configuration cannot work on this
 * node, or the node does not serve its primary family.
 */
export function logNode({ configuration, support, nodeIps, podCidrs, log }: NodeLogOptions): CodedError | undefined {
  const { families } = support
  const primary = primaryFamily(configuration.bindAddress, nodeIps)
  const ips = nodeIpsOf({ addresses: nodeIps }, configuration.bindAddress)
  const cluster = { primary, isDualStack: families.length === 2, podCidrs, nodeIps: ips }
  logDoubts(nodePortDoubts(configuration, cluster), log)
  for (const lack of support.lacks) logLack(lack, log)
  if (!families.includes(primary))
    return new CodedError('family-unsupported', `no support for primary IP family "${primary}"`)
  if (cluster.isDualStack) log.info('kube-proxy running in dual-stack mode', { 'primary ipFamily': primary })
  else log.info('kube-proxy running in single-stack mode', { ipFamily: primary })
  const { texts, isFatal } = familyDoubts(configuration, cluster)
  if (isFatal) return new CodedError('config-invalid', `kube-proxy configuration is incorrect: ${aggregateText(texts)}`)
  logDoubts(texts, log)
  for (const nodeIP of nodeIps) {
    const family = familyOf(nodeIP)
    log.verbose(2, 'Record nodeIP and family', { ipFamily: family, nodeIP, family })
  }
  return undefined
}

function logDoubts(texts: readonly string[], log: Log): void {
  if (texts.length > 0)
    log.error('Kube-proxy configuration may be incomplete or incorrect', { error: aggregate(texts) })
}

/** Logs why a family is not served. */
function logLack(lack: FamilyLack, log: Log): void {
  const { family: ipFamily } = lack
  switch (lack.why) {
    case 'iptables':
      return log.info('No iptables support for family', { ipFamily, error: lack.reason })
    case 'nftables':
      return log.info('No nftables support for family', { ipFamily, error: lack.reason })
    case 'disabled':
      return log.info('Kernel support disabled for family', { ipFamily })
    case 'kernel':
      return log.info('No kernel support for family', { ipFamily })
  }
}

/** The family of bindAddress unless that is unspecified, then that of the node's first IP, then IPv4. */
function primaryFamily(bindAddress: string, nodeIps: readonly string[]): IpFamily {
  const address = parseAddressSloppy(bindAddress)
  if (address !== undefined && address !== '0.0.0.0' && address !== '::') return familyOf(address)
  return familyOf(nodeIps[0] ?? '0.0.0.0')
}

/** Several reasons in one, as Kubernetes prints them. */
function aggregate(texts: readonly string[]): AggregateError {
  return new AggregateError(
    texts.map((text) => new Error(text)),
    aggregateText(texts),
  )
}
