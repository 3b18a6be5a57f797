/** Follows the file of the configuration while the daemon runs. */
import type { KubeProxyConfiguration } from '../config/types.ts'
import { ConfigReload } from './config-reload.ts'
import { applyLive } from './live-settings.ts'
import type { ProcessLog } from '../serve/log.ts'
import type { RunningProxy } from './running-proxy.ts'

export interface FollowOptions {
  readonly configuration: KubeProxyConfiguration
  /** See `DaemonOptions`. */
  readonly readConfiguration: () => Promise<KubeProxyConfiguration>
  readonly log: ProcessLog
}

/** Loaded after the first pass, to keep it off the critical path of a start, or when that pass takes long. */
export function followFile(path: string, options: FollowOptions, proxy: RunningProxy): void {
  const { configuration, readConfiguration, log } = options
  const reload = new ConfigReload({
    path,
    configuration,
    mode: () => proxy.mode,
    read: readConfiguration,
    listener: {
      changed: (next, fields) => applyLive(next, fields, { log, proxy }),
      failed: (error) => proxy.fail(error),
    },
    log,
  })
  reload.start()
}
