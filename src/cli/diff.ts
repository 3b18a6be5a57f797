/**
 * `kube-ipvs diff`: what a pass would change, as the commands an operator would type, and what a
 * running daemon is doing that explains it. Exit code 1 means that something differs; every error
 * is 2.
 */
import { plannedCommands } from '../daemon/commands.ts'
import { askDaemon, type DaemonClient, isUnknown } from '../inspect/daemon-client.ts'
import type { DaemonView } from '../inspect/view.ts'
import type { FlagValues } from '../start/flags.ts'
import { printJson, printText, stderrLog } from '../start/output.ts'
import { loadSettings } from '../start/settings.ts'
import { silentLog } from '../values/log.ts'
import { printable } from '../values/quote.ts'
import { withDaemonsName } from './daemons-name.ts'
import { count, spanText } from './status-words.ts'

/** The daemon answers within milliseconds, or it hangs. */
const ANSWER_MS = 3000

export async function diff(flags: FlagValues): Promise<number> {
  const loaded = await loadSettings(flags)
  const client = askDaemon(loaded.configuration.kubeIPVS.socket, { deadlineMs: ANSWER_MS })
  const settings = withDaemonsName(loaded, await client.daemon())
  const commands = await plannedCommands(settings, flags.output === 'json' ? silentLog : stderrLog)
  if (flags.output === 'json') printJson({ operations: commands })
  else for (const command of commands) printText(command)
  if (commands.length === 0) return 0
  for (const remark of await daemonRemarks(client, settings.configuration.mode))
    stderrLog.warn(`kube-ipvs diff: ${remark}`)
  return 1
}

/** Lines for people; none when there is nothing to say, or no daemon that is meant to answer. */
async function daemonRemarks(client: DaemonClient, mode: string): Promise<readonly string[]> {
  const view = await client.daemon()
  if (!isUnknown(view)) return remarksOn(view, mode)
  // A node without a daemon is a usual place for a diff.
  return view.unknown === 'off' || view.unknown === 'no-daemon' ? [] : [view.reason]
}

/** @param mode the one that the differences are about */
export function remarksOn(daemon: DaemonView, mode: string): readonly string[] {
  const { awaiting, health, passes, counts, problems } = daemon
  const failed = passes.reduce((sum, pass) => sum + pass.failed, 0)
  const unreadable = passes.reduce((sum, pass) => sum + pass.unreadable, 0)
  const rival = problems.find(({ code }) => code === 'rival-writes')
  return [
    ...(daemon.configuredMode === mode
      ? []
      : [
          `the daemon is configured for ${printable(daemon.configuredMode)} mode, and these differences are those of ${mode} mode`,
        ]),
    ...(awaiting.length === 0
      ? []
      : [
          `the daemon waits for the list of ${awaiting.map(printable).join(', ')}, and removes nothing before it has all`,
        ]),
    ...health.pending.map(({ what, seconds }) => `the daemon is at work: ${printable(what)} (${spanText(seconds)})`),
    ...(failed === 0 ? [] : [`the last pass of the daemon failed at ${count(failed, 'operation')}, which it retries`]),
    ...(unreadable === 0 ? [] : [`the daemon could not read ${count(unreadable, 'table')} in its last pass`]),
    ...(rival === undefined ? [] : [printable(rival.message)]),
    ...(counts.draining === 0
      ? []
      : [
          `${count(counts.draining, 'real server')} draining: they are no differences, and are removed when their connections have ended`,
        ]),
  ]
}
