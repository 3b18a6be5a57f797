/** What the daemon would change in the kernel now, for `kube-ipvs diff`. Nothing is changed. */
import type { Log } from '../values/log.ts'
import { Proxy } from './proxy.ts'
import { chooseSources, type SourceSettings } from './sources.ts'

/** As long as the sources may take to list. */
const LIST_MS = 30_000

/** The commands, in the order of a pass. Rejects with `source-timeout` when the sources have not listed in time. */
export async function plannedCommands(settings: SourceSettings, log: Log): Promise<readonly string[]> {
  const { configuration, nodeName } = settings
  const { openSource, virtualIps } = await chooseSources({ ...settings, log })
  const proxy = await Proxy.prepare({
    configuration,
    nodeName,

    log,
    virtualIps,
    openSource,
  })
  try {
    return await proxy.preview(LIST_MS)
  } finally {
    await proxy.close()
  }
}
