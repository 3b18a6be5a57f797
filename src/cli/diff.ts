/**
 * `kube-ipvs diff`: what a pass would change, as the commands an operator would type. Exit code 1
 * means that something differs; every error is 2.
 */
import { plannedCommands } from '../daemon/commands.ts'
import { askDaemon } from '../inspect/daemon-client.ts'
import { silentLog } from '../values/log.ts'
import { daemonRemarks } from './daemon-remarks.ts'
import type { FlagValues } from '../start/flags.ts'
import { printJson, printText, stderrLog } from '../start/output.ts'
import { loadSettings } from '../start/settings.ts'
import { withDaemonsName } from './daemons-name.ts'

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
