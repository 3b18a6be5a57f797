/**
 * Follows the configuration file: the proxy applies changes of live fields; any other change ends
 * the process, and the next process reads the new file. An invalid file never ends a proxy that
 * works: it is logged, and the previous configuration stays in force.
 */
import { changesBetween, configChanged } from '../config/changes.ts'
import type { KubeProxyConfiguration, LivePath, ProxyMode } from '../config/types.ts'
import type { ProcessLog } from '../serve/log.ts'
import { CodedError } from '../values/errors.ts'
import type { Log } from '../values/log.ts'
import { applyLive } from './live-settings.ts'
import type { RunningProxy } from './running-proxy.ts'
import { WatchedFile } from './watched-file.ts'

export interface ReloadListener {
  /**
   * These live fields changed. Without one, fields without effect in this mode changed, which
   * another mode may read later.
   */
  changed(configuration: KubeProxyConfiguration, fields: readonly LivePath[]): void
  /** A field changed that takes effect only in a new process. */
  failed(error: CodedError): void
}

export interface ConfigReloadOptions {
  readonly path: string
  /** The configuration in force. */
  readonly configuration: KubeProxyConfiguration
  /** The mode that the proxy runs in. */
  readonly mode: () => ProxyMode
  /** Reads the file again, with the flags that count with a file. Rejects with what is wrong with it. */
  readonly read: () => Promise<KubeProxyConfiguration>
  readonly listener: ReloadListener
  readonly log: Log
  /** Time between two checks of the file, in milliseconds; default 1000. */
  readonly pollMs?: number
}

export class ConfigReload {
  readonly #options: ConfigReloadOptions
  readonly #file: WatchedFile
  #configuration: KubeProxyConfiguration
  #isClosed = false

  constructor(options: ConfigReloadOptions) {
    const { path, configuration, pollMs } = options
    this.#options = options
    this.#configuration = configuration
    this.#file = new WatchedFile({
      path,
      onContent: (error) => this.#changed(error),
      ...(pollMs === undefined ? {} : { pollMs }),
    })
  }

  /** Starts to check the file. */
  start(): void {
    this.#file.start()
  }

  close(): void {
    this.#isClosed = true
    this.#file.close()
  }

  async #changed(unreadable: Error | undefined): Promise<void> {
    const { path, mode, read, listener, log } = this.#options
    let next: KubeProxyConfiguration
    try {
      if (unreadable !== undefined) throw unreadable
      next = await read()
    } catch (error) {
      if (this.#isClosed) return
      const advice = error instanceof CodedError && error.advice !== undefined ? { advice: error.advice } : {}
      const message = 'The configuration file is invalid; the previous configuration stays in force'
      log.error(message, { error, file: path, ...advice })
      return
    }
    if (this.#isClosed) return
    const { live, restart, withoutEffect } = changesBetween(this.#configuration, next, mode())
    if (restart.length > 0) return listener.failed(configChanged(restart))
    this.#configuration = next
    if (withoutEffect.length > 0)
      log.info('Configuration file changed in fields without effect here', { file: path, fields: withoutEffect })
    if (live.length > 0) log.info('Configuration file changed', { file: path, fields: live })
    if (live.length > 0 || withoutEffect.length > 0) listener.changed(next, live)
  }
}

interface FollowOptions {
  readonly configuration: KubeProxyConfiguration
  /** See `DaemonOptions`. */
  readonly readConfiguration: () => Promise<KubeProxyConfiguration>
  readonly log: ProcessLog
}

/**
 * Follows the file while the daemon runs. Loaded after the first pass, to keep it off the critical
 * path of a start, or when that pass takes long.
 */
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
