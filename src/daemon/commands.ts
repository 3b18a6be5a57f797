/**
 * Puts the daemon's parts together for the other commands: `diff`, `status`, `explain` and
 * `doctor`. The daemon does not load it.
 */
import { askHere, type DaemonClient } from '../inspect/daemon-client.ts'
import { commandsOf } from '../sync/plan.ts'
import { Budget } from '../values/budget.ts'
import type { Log } from '../values/log.ts'
import type { AccessProvider } from '../watch/api/access.ts'
import { assembleProxy } from './proxy-assembly.ts'
import { chooseSources, execPluginRunner, type SourceSettings } from './sources.ts'

/*
 * Where a command computes frontends, nobody waits for a turn: work that gave way would put long
 * Services behind the others, and the order of a plan would depend on the clock. So its budgets
 * have no end.
 */

/** `diff` waits this long for the source to list. */
const LIST_MS = 30_000

/**
 * What the daemon would change in the kernel now, as commands in the order of a pass. Nothing is
 * changed. Rejects with `source-timeout` when the source has not listed in time.
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
 * Answers the questions that the daemon answers at its local socket, in this process and by the
 * same code: the source is listed once, and the mode opened, but nothing is changed. Rejects with
 * `source-timeout` when the source has not listed in time, and as a start of the daemon does when
 * the mode cannot work here.
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
