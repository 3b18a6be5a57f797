/**
 * Names of Services for what the kernel has, without a daemon and without a mode: a command lists
 * the source once. The daemon does not load it.
 */
import { openRtnetlink } from '../../native/open.ts'
import type { FrontendKey } from '../service/frontends.ts'
import { DesiredFrontends } from '../sync/desired-frontends.ts'
import type { Log } from '../values/log.ts'
import type { Source } from '../watch/source.ts'
import { FirstLists, listOnce } from './first-lists.ts'
import { FollowedNode, frontendSettingsOf } from './followed-node.ts'
import { chooseSources, type SourceSettings } from './sources.ts'

export interface FrontendNamesOptions extends SourceSettings {
  /** Longest wait until the source has listed. */
  readonly deadlineMs: number
  readonly log: Log
  readonly signal: AbortSignal
}

/**
 * The Service port of each virtual server of this node, as `namespace/name:port`. The kernel does
 * not know it, so the Services are listed once and their frontends computed as in the daemon.
 * Rejects with `source-timeout` when the source has not listed in time.
 */
export async function frontendNames(options: FrontendNamesOptions): Promise<ReadonlyMap<FrontendKey, string>> {
  const { configuration, deadlineMs } = options
  const { openSource } = await chooseSources(options)
  // For the node's addresses, where node ports answer.
  const rtnetlink = openRtnetlink()
  const node = new FollowedNode({
    ...options,
    rtnetlink,
    configuration: () => configuration,
    now: () => performance.now(),
    listener: { nodeChanged: () => undefined },
  })
  let source: Source | undefined
  try {
    await node.readAddresses()
    const desired = new DesiredFrontends(
      node.view.context,
      frontendSettingsOf(() => configuration, { name: 'ipvs', nodePorts: 'each-address' }),
    )
    const lists = new FirstLists()
    source = openSource({
      apply: (changes) => {
        node.apply(changes)
        for (const change of changes) desired.apply(change)
      },
      listed: (kind) => lists.listed(kind),
      problems: () => undefined,
    })
    await listOnce(lists, deadlineMs)
    desired.setContext(node.view.context)
    const names = new Map<FrontendKey, string>()
    const frontend = (key: FrontendKey): void => {
      const name = desired.get(key)?.servicePort.name
      if (name !== undefined) names.set(key, name)
    }
    desired.flushAll({ frontend, problems: () => undefined })
    return names
  } finally {
    node.close()
    rtnetlink.close()
    await source?.close()
  }
}
