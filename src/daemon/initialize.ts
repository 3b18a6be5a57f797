/** `--init-only`: what takes more rights than the proxy needs afterwards. */
import { requestModule } from '../../native/module-request.ts'
import type { KubeProxyConfiguration, ProxyMode } from '../config/types.ts'
import type { IpvsConnection } from '../ipvs/connection.ts'
import { initializeIptablesNode } from '../modes/iptables/kernel.ts'
import { fallbackFor, logFallback } from '../modes/fallback.ts'
import type { FirewallName } from '../modes/chosen-firewall.ts'
import { settingLogger } from '../modes/node-settings.ts'
import { findFirewall, openIpvs } from '../modes/ipvs/kernel.ts'
import {
  checkNode,
  initializeDevice,
  initializeNode,
  logFindings,
  usualFirewall,
} from '../modes/ipvs/node-preparation.ts'
import { requireNetAdmin } from '../node/capabilities.ts'
import { deadlineSignal } from '../node/deadline.ts'
import { kernelFamilies } from '../node/families.ts'
import { kernelRelease } from '../node/host.ts'
import { ipvsSysctls, isOfIpvs } from '../node/kernel-settings.ts'
import { applySysctls } from '../node/sysctl.ts'
import { ProblemLog } from '../serve/problem-log.ts'
import type { Log } from '../values/log.ts'
import { NO_MODE } from './start-log.ts'

/** Loading modules takes seconds on a slow disk. */
const INITIALIZE_MS = 60_000
/** Of these: a kernel that does not answer must not keep the settings from being written. */
const ASK_MS = 30_000

/**
 * Does what takes more rights than the proxy needs afterwards: writes the kernel's settings, and
 * makes the kernel load the modules of the mode, for which a container may lack the permission
 * (SELinux). It logs what the kernel lacks, creates nothing but kube-ipvs0 where that has no IPv6
 * otherwise, reads no Service and sends no request to the API server, so it works in an init
 * container, any number of times. Rejects when the kernel lacks the scheduler, without a fallback
 * when it has no IPVS, and with `capability-missing`.
 */
export async function initializeOnly(configuration: KubeProxyConfiguration, log: Log): Promise<void> {
  const problems = new ProblemLog(log)
  requireNetAdmin()
  if (configuration.modeIsDefault === true) log.error(NO_MODE)
  log.info(`Using ${configuration.mode} Proxier`)
  const { localhostNodePorts } = configuration.iptables
  const signal = deadlineSignal(INITIALIZE_MS, 'preparing the node')
  let node: PreparedNode = { mode: 'iptables' }
  // As kube-proxy: the proxy that starts afterwards may lack the right to do it.
  if (configuration.mode === 'iptables')
    initializeIptablesNode({ configuration, localhostNodePorts, problems, log })?.()
  else node = await initializeIpvsNode(configuration, problems, log, signal)
  // The device kube-ipvs0 is a dummy, which no question of the check concerns.
  if (node.mode === 'ipvs') {
    requestModule('dummy')
    await initializeDevice(log, signal)
  } else await prepareSwitch(configuration, log)
  // The settings are written: a kernel that does not answer must not keep the proxy from its start.
  try {
    const { findings } = await checkNode({ configuration, ...node, signal })
    logFindings(findings, log)
  } catch (error) {
    log.warn('Cannot query the kernel for missing features', { error })
  }
  for (const ipFamily of kernelFamilies().families)
    log.info('System initialized and --init-only specified', { ipFamily })
}

/**
 * Writes the settings of IPVS itself for a later switch to ipvs mode, when the daemon that runs may
 * not write them. Without virtual servers they have no effect, and where the kernel has no IPVS
 * nothing happens.
 */
async function prepareSwitch({ ipvs: { strictARP } }: KubeProxyConfiguration, log: Log): Promise<void> {
  try {
    const ipvs = await openIpvs(deadlineSignal(ASK_MS, 'asking the kernel for IPVS'))
    ipvs.close()
    applySysctls(ipvsSysctls(strictARP, kernelRelease()).filter(isOfIpvs), '', settingLogger(log))
  } catch (error) {
    log.verbose(2, 'No settings for a later switch to ipvs mode', { error })
  }
}

/** What the proxy will run. */
interface PreparedNode {
  readonly mode: ProxyMode
  /** Of ipvs mode. */
  readonly firewall?: FirewallName
}

async function initializeIpvsNode(
  configuration: KubeProxyConfiguration,
  problems: ProblemLog,
  log: Log,
  signal: AbortSignal,
): Promise<PreparedNode> {
  const fallBack = (error: unknown): PreparedNode | undefined => {
    const fallback = fallbackFor(error, configuration)
    if (fallback === undefined) return undefined
    logFallback(fallback, log)
    initializeIptablesNode({ configuration, localhostNodePorts: false, problems, log })
    return { mode: 'iptables' }
  }
  let ipvs: IpvsConnection
  try {
    ipvs = await openIpvs(signal)
  } catch (error) {
    const fallen = fallBack(error)
    if (fallen === undefined) throw error
    return fallen
  }
  try {
    const firewall = await askForFirewall(configuration).catch(fallBack)
    if (typeof firewall === 'object') return firewall
    await initializeNode({ configuration, ipvs, problems, log, signal })
    return { mode: 'ipvs', firewall: firewall ?? usualFirewall(configuration) }
  } finally {
    ipvs.close()
  }
}

/** That of the start. The kernel loads its modules, also those that a program of iptables would load. */
async function askForFirewall({ kubeIPVS }: KubeProxyConfiguration): Promise<FirewallName> {
  const signal = deadlineSignal(ASK_MS, 'asking the kernel for a firewall')
  return (await findFirewall(kubeIPVS, signal, { mayLoadModules: true })).name
}
