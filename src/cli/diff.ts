/**
 * `kube-ipvs diff`: what a pass would change, as the commands an operator would type. Exit code 1 means that something differs;
 * every error is 2.
 */
import { plannedCommands } from '../daemon/commands.ts'
import { silentLog } from '../values/log.ts'
import type { FlagValues } from './flags.ts'
import { loadSettings } from './settings.ts'
import { stderrLog } from './terminal.ts'

export async function diff(flags: FlagValues): Promise<number> {
  const commands = await plannedCommands(await loadSettings(flags), flags.output === 'json' ? silentLog : stderrLog)
  if (flags.output === 'json') process.stdout.write(`${JSON.stringify({ operations: commands })}\n`)
  else for (const command of commands) process.stdout.write(`${command}\n`)
  return commands.length === 0 ? 0 : 1
}
