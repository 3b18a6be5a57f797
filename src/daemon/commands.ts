/** Puts the daemon's parts together for the other commands: `diff`, `status`, `doctor` and `--init-only`. */
import { requestModule } from '../../native/module-request.ts'
import type { KubeProxyConfiguration, ProxyMode } from '../config/types.ts'
import { askHere, type DaemonClient } from '../inspect/daemon-client.ts'
import type { IpvsConnection } from '../ipvs/connection.ts'
import { initializeIptablesNode } from '../modes/iptables/kernel.ts'
import { fallbackFor, logFallback } from '../modes/fallback.ts'
import { openIpvs } from '../modes/ipvs/kernel.ts'
import { checkNode, initializeDevice, initializeNode, logFindings } from '../modes/ipvs/node-preparation.ts'
import { requireNetAdmin } from '../node/capabilities.ts'
import { kernelFamilies } from '../node/families.ts'
import { ProblemLog } from '../serve/problem-log.ts'
import { commandsOf } from '../sync/plan.ts'
import { deadlineSignal } from '../node/deadline.ts'
import { Budget } from '../values/budget.ts'
import type { Log } from '../values/log.ts'
import type { AccessProvider } from '../watch/api/access.ts'
import { assembleProxy } from './proxy-assembly.ts'
import { chooseSources, execPluginRunner, type SourceSettings } from './sources.ts'
import { NO_MODE } from './start-log.ts'

/*
 * Where a command computes frontends, nobody waits for a turn: work that gave way would put long Services behind the others, and the order of a
 * plan would depend on the clock. So its budgets have no end.
 */

/** `diff` waits this long for the source to list. */
const LIST_MS = 30_000
/** Loading modules takes seconds on a slow disk. */
const INITIALIZE_MS = 60_000

/**
 * What the daemon would change in the kernel now, as commands in the order of a pass. Nothing is changed. Rejects with
 * `source-timeout` when the source has not listed in time.
 */
export async function plannedCommands(settings: SourceSettings, log: Log): Promise<readonly string[]> {
  const { configuration, nodeName } = settings
  const { openSource, openNodeLabels, virtualIps } = await chooseSources({ ...settings, log })
  const proxy = await assembleProxy({ configuration, nodeName, log, virtualIps, openNodeLabels, budget: new Budget() })
  try {
    return commandsOf(await proxy.plan(openSource, LIST_MS))
  } finally {
    await proxy.close()
  }
}

/** What a daemon with certain settings would tell, from one list of the objects. */
export interface OpenedViews {
  readonly client: DaemonClient
  close(): Promise<void>
}

/**
 * Answers the questions that the daemon answers at its local socket, in this process and by the same code: the source is listed once, and
 * the mode opened, but nothing is changed. Rejects with `source-timeout` when the source has not listed in time, and as a start of the
 * daemon does when the mode cannot work here.
 */
export async function openViews(settings: SourceSettings, log: Log, deadlineMs = LIST_MS): Promise<OpenedViews> {
  const { configuration, nodeName } = settings
  const { openSource, virtualIps, listPod } = await chooseSources({ ...settings, log })
  const proxy = await assembleProxy({ configuration, nodeName, log, virtualIps, budget: new Budget() })
  const abort = new AbortController()
  const close = async (): Promise<void> => {
    abort.abort()
    await proxy.close()
  }
  try {
    const { inspected } = proxy
    await proxy.plan(openSource, deadlineMs, { reportsProblems: true })
    const { answerLocally } = await import('./local-answers.ts')
    const client = askHere(async (target) => {
      const [path = '', query = ''] = target.split('?')
      const { status, body } = await answerLocally(
        { inspected: () => inspected, listPod, now: () => performance.now() },
        {
          method: 'GET',
          path,
          query,
          header: () => undefined,
          readBody: async () => '',
          signal: abort.signal,
        },
      )
      return { status, server: '', body: body.toString() }
    })
    return { client, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Access to the API server that the settings name. Rejects with what is wrong with the kubeconfig. */
export async function apiAccess({ configuration, master = '' }: SourceSettings): Promise<AccessProvider> {
  const { KubeAccess } = await import('../watch/api/kube-config.ts')
  const { kubeconfig } = configuration.clientConnection
  const access = new KubeAccess({ kubeconfig, master, runPlugin: execPluginRunner() })
  await access.check()
  return access
}

/**
 * Does what takes more rights than the proxy needs afterwards: writes the kernel's settings, and makes the kernel load the modules of
 * the mode, for which a container may lack the permission (SELinux). It logs what the kernel lacks, creates nothing but kube-ipvs0 where
 * that has no IPv6 otherwise, reads no Service and sends no request to the API server, so it works in an init container, any number of times. Rejects when the kernel lacks the
 * scheduler, without a fallback when it has no IPVS, and with `capability-missing`.
 */
export async function initializeOnly(configuration: KubeProxyConfiguration, log: Log): Promise<void> {
  const problems = new ProblemLog(log)
  requireNetAdmin()
  if (configuration.modeIsDefault === true) log.error(NO_MODE)
  log.info(`Using ${configuration.mode} Proxier`)
  const { localhostNodePorts } = configuration.iptables
  const signal = deadlineSignal(INITIALIZE_MS, 'preparing the node')
  let { mode } = configuration
  // As kube-proxy: the proxy that starts afterwards may lack the right to do it.
  if (mode === 'iptables') initializeIptablesNode({ configuration, localhostNodePorts, problems, log })?.()
  else mode = await initializeIpvsNode(configuration, problems, log, signal)
  // The device kube-ipvs0 is a dummy, which no question of the check concerns.
  if (mode === 'ipvs') {
    requestModule('dummy')
    await initializeDevice(log, signal)
  }
  // The settings are written: a kernel that does not answer must not keep the proxy from its start.
  await checkNode({ configuration, mode, signal }).then(
    ({ findings }) => logFindings(findings, log),
    (error: unknown) => log.warn('Cannot query the kernel for missing features', { error }),
  )
  for (const ipFamily of kernelFamilies().families)
    log.info('System initialized and --init-only specified', { ipFamily })
}

/** Resolves to the mode that the proxy will run in. */
async function initializeIpvsNode(
  configuration: KubeProxyConfiguration,
  problems: ProblemLog,
  log: Log,
  signal: AbortSignal,
): Promise<ProxyMode> {
  let ipvs: IpvsConnection
  try {
    ipvs = await openIpvs(signal)
  } catch (error) {
    const fallback = fallbackFor(error, configuration)
    if (fallback === undefined) throw error
    logFallback(fallback, log)
    initializeIptablesNode({ configuration, localhostNodePorts: false, problems, log })
    return 'iptables'
  }
  try {
    await initializeNode({ configuration, ipvs, problems, log, signal })
    return 'ipvs'
  } finally {
    ipvs.close()
  }
}
