/**
 * What is done to the node once, before anything is listed: settings of the kernel, a look at what it lacks.
 * What could break: the order. Conntrack is set before anything that may end the process, as in kube-proxy; and nothing
 * but a missing scheduler ends it.
 */
import { schedulerOf } from '../ipvs/scheduler.ts'
import type { KubeProxyConfiguration } from '../config/types.ts'
import { checkScheduler, type IpvsKernel } from './ipvs/ipvs-kernel.ts'
import type { SetsAndRules } from './ipvs/sets-and-rules.ts'
import { OPTIONAL_MATCHES } from '../iptables/types.ts'
import { kernelRelease, processorCount } from '../node/host.ts'
import type { IptablesChoice } from '../node/iptables-choice.ts'
import {
  conntrackLimit,
  conntrackSettings,
  iptablesSysctls,
  ipvsSysctls,
  type KernelSetting,
} from '../node/kernel-settings.ts'
import { applySysctls, type SettingListener } from '../node/sysctl.ts'
import type { ProblemLog } from '../serve/problem-log.ts'
import { nodePortRangesOf } from '../service/node-addresses.ts'
import type { Log } from '../values/log.ts'
import type { IpFamily } from '../values/protocol.ts'
import { checkNode, logFindings } from './ipvs/node-check.ts'

export interface NodeInitialization {
  readonly configuration: KubeProxyConfiguration
  readonly kernel: Pick<IpvsKernel, 'ipvs'>
  readonly problems: ProblemLog
  readonly log: Log
  readonly signal: AbortSignal
}

export interface NodePreparation extends NodeInitialization {
  readonly guard: SetsAndRules
  readonly iptables: IptablesChoice
  /** Families that are served. */
  readonly families: readonly IpFamily[]
}

const SYSCTLS = '/proc/sys/'
const REUSE_MODE = 'conn_reuse_mode'

/** Rejects with `module-missing` when the kernel lacks the scheduler, or when aborted. */
export async function prepareNode(options: NodePreparation): Promise<void> {
  await initializeNode(options)
  await checkForMissing(options)
}

/** The kernel's settings, and nothing else: what --init-only is for. Rejects as `prepareNode` does. */
export async function initializeNode(options: NodeInitialization): Promise<void> {
  const { configuration, kernel, log, signal } = options
  const { ipvs } = configuration
  setConntrack(options)
  await checkScheduler(kernel.ipvs, schedulerOf(ipvs.scheduler), signal)
  const settings = ipvsSysctls(ipvs.strictARP, kernelRelease())
  setSysctls(settings, options)
  if (!settings.some(({ path }) => path.endsWith(REUSE_MODE)))
    log.verbose(2, 'Left as-is', { sysctl: `net/ipv4/vs/${REUSE_MODE}` })
  await setTimeouts(options)
}

type Reports = Pick<NodeInitialization, 'configuration' | 'problems' | 'log'>

/** The same in iptables mode, which asks nothing of the kernel. Returns what `routeLocalnet` returns. */
export function initializeIptablesNode(options: Reports): (() => void) | undefined {
  setConntrack(options)
  return routeLocalnet(options)
}

/**
 * Returns what lets node ports answer at 127.0.0.0/8, where the configuration wants that. Until the rule is written that
 * guards these addresses, others in the node's network could reach what listens there (CVE-2020-8558), so the caller runs it
 * after that. Nothing forbids it again.
 */
export function routeLocalnet(options: Reports): (() => void) | undefined {
  const { configuration, log } = options
  const { includesLoopback } = nodePortRangesOf(configuration.nodePortAddresses, [], {})
  if (!configuration.iptables.localhostNodePorts || !includesLoopback) return undefined
  log.info(LOCALNET, { ipFamily: 'IPv4' })
  return () => setSysctls(iptablesSysctls(true), options)
}

const LOCALNET =
  'Setting route_localnet=1 to allow node-ports on localhost; to change this either disable iptables.localhostNodePorts (--iptables-localhost-nodeports) or set nodePortAddresses (--nodeport-addresses) to filter loopback addresses'

function setConntrack({ configuration: { conntrack }, problems, log }: Reports): void {
  const limit = conntrackLimit(conntrack, processorCount())
  if (limit > 0) log.info('Setting nf_conntrack_max', { nfConntrackMax: limit })
  const onConntrack: SettingListener = ({ path, value }) => {
    if (path.startsWith(SYSCTLS)) log.info('Set sysctl', { entry: path.slice(SYSCTLS.length), value })
    else log.info('Setting conntrack hashsize', { conntrackHashsize: value })
  }
  const conntrackProblems = applySysctls(conntrackSettings(conntrack, processorCount()), '', onConntrack)
  problems.report('sysctl', 'conntrack', conntrackProblems)
}

function setSysctls(settings: readonly KernelSetting[], { problems, log }: Reports): void {
  const onChanged: SettingListener = ({ path, value }, before) =>
    log.info('Changed sysctl', { name: path.slice(SYSCTLS.length), before, after: value })
  problems.report('sysctl', 'sysctl', applySysctls(settings, '', onChanged))
}

/** kube-proxy's --ipvs-tcp-timeout and the like; 0 leaves the kernel's own. */
async function setTimeouts({ configuration, kernel, log, signal }: NodeInitialization): Promise<void> {
  const { tcpTimeoutMs, tcpFinTimeoutMs, udpTimeoutMs } = configuration.ipvs
  if (tcpTimeoutMs + tcpFinTimeoutMs + udpTimeoutMs === 0) return
  const seconds = (milliseconds: number): number => Math.floor(milliseconds / 1000)
  const timeouts = {
    tcpSeconds: seconds(tcpTimeoutMs),
    tcpFinSeconds: seconds(tcpFinTimeoutMs),
    udpSeconds: seconds(udpTimeoutMs),
  }
  try {
    await kernel.ipvs.setTimeouts(timeouts, { signal })
  } catch (error) {
    log.error('Cannot set the IPVS timeouts', { error })
  }
}

/** Names what the kernel lacks; rules that need a match which is not there are left out from the start. */
async function checkForMissing({
  configuration,
  families,
  guard,
  iptables,
  log,
  signal,
}: NodePreparation): Promise<void> {
  try {
    const { findings, missingMatches } = await checkNode({ configuration, families, iptables, signal })
    logFindings(findings, log)
    for (const match of OPTIONAL_MATCHES) if (missingMatches.has(match)) guard.lacks(match)
  } catch (error) {
    signal.throwIfAborted()
    log.warn('Cannot ask the kernel what it lacks', { error })
  }
}
