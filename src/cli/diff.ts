/**
 * `kube-ipvs diff`: what a pass would change, as the commands an operator would type.
 * What could break: exit code 1 means "something differs" and nothing else; every error is 2.
 */
import { silentLog } from '../values/log.ts'
import type { FlagValues } from './flags.ts'
import { Proxy } from '../daemon/proxy.ts'
import { loadSettings, sourcesOf } from './settings.ts'
import { stderrLog } from './stderr-log.ts'

/** As long as the sources may take to list. */
const LIST_MS = 30_000

export async function diff(flags: FlagValues): Promise<number> {
  const settings = await loadSettings(flags)
  const log = flags.output === 'json' ? silentLog : stderrLog
  const { openSource, virtualIps } = await sourcesOf(flags, settings, log)
  const proxy = await Proxy.prepare({
    configuration: settings.configuration,
    nodeName: settings.nodeName,
    log,
    virtualIps,
    openSource,
  })
  try {
    const commands = await proxy.preview(LIST_MS)
    if (flags.output === 'json') process.stdout.write(`${JSON.stringify({ operations: commands })}\n`)
    else for (const command of commands) process.stdout.write(`${command}\n`)
    return commands.length === 0 ? 0 : 1
  } finally {
    await proxy.close()
  }
}
