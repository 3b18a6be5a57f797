/** `kube-ipvs cleanup` and `--cleanup`: removes what proxies of any mode left, and prints what it removed. */
import { removeEverything } from '../modes/leftovers/cleanup.ts'
import { deadlineSignal } from '../node/deadline.ts'
import { parseCidrs } from '../values/cidr.ts'
import type { FlagValues } from '../start/flags.ts'
import { printJson, printText, stderrLog } from '../start/output.ts'
import { cleanupSettings } from '../start/settings.ts'

const DEADLINE_MS = 60_000

/** Resolves to the exit code: 1 when something could not be removed. */
export async function cleanup(flags: FlagValues): Promise<number> {
  const configuration = await cleanupSettings(flags)
  const dryRun = flags.dryRun === true
  const { commands, failures } = await removeEverything({
    excluded: parseCidrs(configuration.ipvs.excludeCIDRs),
    dryRun,
    signal: deadlineSignal(DEADLINE_MS, 'the cleanup'),
  })
  if (flags.output === 'json') {
    const reasons = failures.map(({ command, error }) => ({ command, error: error.message }))
    printJson({ dryRun, operations: commands, failures: reasons })
  } else for (const command of commands) printText(command)
  for (const { command, error } of failures) {
    const about = error.message.startsWith(command) ? '' : `${command.split('\n')[0]}: `
    stderrLog.warn(`kube-ipvs cleanup: ${about}${error.message}`)
  }
  return failures.length === 0 ? 0 : 1
}
