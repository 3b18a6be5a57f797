/**
 * Which Service port each virtual server of this node is for. The kernel does not know that, so Services are listed once
 * and worked out as the proxy does it; nothing is written.
 */
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import type { FrontendKey } from '../service/frontends.ts'
import { DesiredFrontends } from '../sync/desired-frontends.ts'
import type { Log } from '../values/log.ts'
import type { Source } from '../watch/source.ts'
import { FollowedNode } from './followed-node.ts'
import { listOnce } from './list-once.ts'
import { chooseSources, type SourceSettings } from './sources.ts'

export interface FrontendNamesOptions extends SourceSettings {
  /** For the node's addresses, where node ports answer. */
  readonly rtnetlink: RtnetlinkConnection
  /** As long as the source may take to list. */
  readonly deadlineMs: number
  readonly log: Log
  readonly signal: AbortSignal
}

/** `namespace/name:port` by virtual server. Rejects with `source-timeout` when the source has not listed in time. */
export async function frontendNames(options: FrontendNamesOptions): Promise<ReadonlyMap<FrontendKey, string>> {
  const { configuration, deadlineMs } = options
  const { openSource } = await chooseSources(options)
  const node = new FollowedNode({
    ...options,
    configuration: () => configuration,
    now: () => performance.now(),
    onChange: () => undefined,
  })
  const opened: { source?: Source } = {}
  try {
    await node.readAddresses()
    const desired = new DesiredFrontends(node.view.context)
    await listOnce((lists) => {
      opened.source = openSource({
        apply: (changes) => {
          node.apply(changes)
          for (const change of changes) desired.apply(change)
        },
        listed: (kind) => lists.listed(kind),
        problems: () => undefined,
      })
    }, deadlineMs)
    desired.setContext(node.view.context)
    const names = new Map<FrontendKey, string>()
    const frontend = (key: FrontendKey): void => {
      const name = desired.get(key)?.servicePortName
      if (name !== undefined) names.set(key, name)
    }
    desired.flush({ frontend, problems: () => undefined }, Number.POSITIVE_INFINITY)
    return names
  } finally {
    node.close()
    await opened.source?.close()
  }
}
