/**
 * The proxy that runs, and its replacement by one that may have another mode. The old proxy runs until the new one has opened the
 * kernel and has every list, and the kernel keeps its state in between; what the old mode left is removed by the new one.
 */
import type { KubeProxyConfiguration, ProxyMode } from '../config/types.ts'
import { returnedToIpvs } from '../events/event-objects.ts'
import type { Events } from '../events/event-recorder.ts'
import { CodedError } from '../values/errors.ts'
import type { Clock } from '../values/clock.ts'
import type { Log } from '../values/log.ts'
import { type FallbackWatch, watchFallback } from './fallback-watch.ts'
import type { Proxy } from './proxy.ts'

/** A proxy that has opened the kernel, and that follows the objects but applies nothing yet. */
export interface PreparedProxy {
  readonly proxy: Pick<
    Proxy,
    'mode' | 'configuration' | 'metrics' | 'inspected' | 'connections' | 'failed' | 'reconfigure' | 'close'
  >
  /** Resolves when every kind of object has been listed. */
  readonly listed: Promise<void>
  start(): Promise<void>
  /** In place of `start`. */
  discard(): Promise<void>
}

export interface RunningProxyOptions {
  /** Opens the kernel, and changes nothing that a running proxy needs. Rejects when no mode that is allowed works here. */
  readonly prepare: (configuration: KubeProxyConfiguration, isReplacement: boolean) => Promise<PreparedProxy>
  /** Replaces nothing: the process ends after one pass. */
  readonly once: boolean
  readonly nodeName: string
  readonly events: Events
  readonly log: Log
  readonly now: Clock
  /** As `watchFallback`; a test replaces it. */
  readonly ask?: (configuration: KubeProxyConfiguration, signal: AbortSignal) => Promise<readonly string[]>
}

type Reason = 'configuration' | 'switch-back' | 'ipvs-lost'

const REASONS: Readonly<Record<Reason, string>> = {
  configuration: 'the mode of the configuration file changed',
  'switch-back': 'the kernel has everything for ipvs mode now',
  'ipvs-lost': 'the kernel has no IPVS any more',
}

/** So that an operator can return at once, and a kernel or a file that alternates does not keep the node busy. */
const MAX_SWITCHES = 3
const PERIOD_MS = 900_000
const RETRY_MS = 300_000

export class RunningProxy {
  readonly #options: RunningProxyOptions
  readonly #failure = Promise.withResolvers<never>()
  readonly #closed = Promise.withResolvers<never>()
  #isClosed = false
  #configuration: KubeProxyConfiguration
  #proxy: PreparedProxy['proxy'] | undefined
  #watch: FallbackWatch | undefined
  /** Why a switch is due that has not begun. */
  #due: Reason | undefined
  /** Resolves when the switch that is under way has ended. */
  #switching: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  /** When the last switches began, at most `MAX_SWITCHES`. */
  #begunMs: number[] = []

  constructor(configuration: KubeProxyConfiguration, options: RunningProxyOptions) {
    this.#configuration = configuration
    this.#options = options
    // Handled even when they reject before the daemon waits for them.
    for (const { promise } of [this.#failure, this.#closed]) promise.catch(() => undefined)
  }

  /** Starts the first proxy. Rejects with `module-missing` and the like when no mode that is allowed works here. */
  async start(): Promise<void> {
    const prepared = await this.#options.prepare(this.#configuration, false)
    await prepared.start()
    this.#follow(prepared.proxy)
  }

  /** The configuration in force. */
  get configuration(): KubeProxyConfiguration {
    return this.#proxy?.configuration ?? this.#configuration
  }

  /** The mode that runs: after a fallback not the configured one; before the start the configured one. */
  get mode(): ProxyMode {
    return this.#proxy?.mode ?? this.#configuration.mode
  }

  get metrics(): Proxy['metrics'] | undefined {
    return this.#proxy?.metrics
  }

  /** What the local socket tells about: while the proxy is replaced, the one before. Undefined before the start. */
  get inspected(): Proxy['inspected'] | undefined {
    return this.#proxy?.inspected
  }

  get connections(): ReturnType<Proxy['connections']> {
    return this.#proxy?.connections() ?? []
  }

  /** Rejects when only a new process can help. */
  get failed(): Promise<never> {
    return this.#failure.promise
  }

  /** Applies a configuration that differs only in live fields: another mode by a new proxy. */
  reconfigure(configuration: KubeProxyConfiguration): void {
    this.#configuration = configuration
    if (configuration.mode !== this.configuration.mode) return this.#request('configuration')
    if (this.#due === 'configuration') this.#cancel()
    this.#proxy?.reconfigure(configuration)
    // kubeIPVS.switchBack may be on now.
    this.#watch?.ask()
  }

  /** Makes `failed` reject. */
  fail(error: CodedError): void {
    this.#failure.reject(error)
  }

  /** The kernel has no IPVS any more. A new proxy uses it when the kernel can load it again, else it falls back. */
  ipvsLost(): void {
    this.#request('ipvs-lost')
  }

  /** Asks the kernel at once whether ipvs mode is possible; false: the proxy is not in a fallback. */
  askKernel(): boolean {
    this.#watch?.ask()
    return this.#watch !== undefined
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#closed.reject(new CodedError('closed', 'the proxy is stopping'))
    this.#cancel()
    this.#watch?.close()
    await this.#switching
    await this.#proxy?.close()
  }

  #follow(proxy: PreparedProxy['proxy']): void {
    const { once, log, ask } = this.#options
    this.#proxy = proxy
    proxy.failed.catch((error: unknown) => {
      if (this.#proxy === proxy) this.#failure.reject(error)
    })
    this.#watch?.close()
    this.#watch = undefined
    if (once || proxy.mode === proxy.configuration.mode) return
    this.#watch = watchFallback({
      configuration: () => proxy.configuration,
      onReady: () => this.#request('switch-back'),
      log,
      ...(ask === undefined ? {} : { ask }),
    })
  }

  #cancel(): void {
    clearTimeout(this.#timer)
    this.#due = undefined
  }

  /** Begins a switch now or as soon as one may begin; several requests until then are one switch. */
  #request(reason: Reason, notBeforeMs = 0): void {
    const { now, log } = this.#options
    // A changed file may make possible what failed before, so it waits for no retry.
    if (reason !== 'configuration' && (this.#due !== undefined || this.#switching !== undefined)) return
    this.#due = reason
    if (this.#switching !== undefined) return
    const [oldest] = this.#begunMs
    const isLimited = oldest !== undefined && this.#begunMs.length === MAX_SWITCHES
    const waitMs = Math.max(notBeforeMs, isLimited ? oldest + PERIOD_MS - now() : 0)
    if (isLimited && waitMs > 0 && notBeforeMs === 0)
      log.warn('The mode was switched too often; the next switch waits', {
        reason: REASONS[reason],
        seconds: Math.ceil(waitMs / 1000),
      })
    clearTimeout(this.#timer)
    this.#timer = setTimeout(
      () => {
        this.#switching = this.#switch(reason)
      },
      Math.max(0, waitMs),
    ).unref()
  }

  /** Never rejects. */
  async #switch(reason: Reason): Promise<void> {
    this.#due = undefined
    this.#begunMs = [...this.#begunMs, this.#options.now()].slice(-MAX_SWITCHES)
    const isDone = await this.#replace(reason).catch((error: unknown) => {
      this.#failure.reject(error)
      return true
    })
    this.#switching = undefined
    const due = this.#due ?? (isDone ? undefined : reason)
    this.#due = undefined
    // The configuration may have changed meanwhile, and back.
    if (due === 'configuration' && this.#configuration.mode === this.configuration.mode) return
    if (due !== undefined && !this.#isClosed) this.#request(due, isDone ? 0 : RETRY_MS)
  }

  /** Resolves to false when no proxy could be prepared. Rejects when neither proxy runs. */
  async #replace(reason: Reason): Promise<boolean> {
    const { prepare, events, nodeName, log } = this.#options
    const [old, configuration] = [this.#proxy, this.#configuration]
    if (old === undefined) return true
    log.info('Replacing the proxy', { mode: old.mode, configured: configuration.mode, reason: REASONS[reason] })
    let next: PreparedProxy | undefined
    try {
      next = await Promise.race([prepare(configuration, true), this.#closed.promise])
      await Promise.race([next.listed, this.#closed.promise])
    } catch (error) {
      await next?.discard()
      if (this.#isClosed) return true
      log.warn('Cannot switch the mode; the running mode stays and the switch is retried', { mode: old.mode, error })
      return false
    }
    // Something went missing again since the kernel was asked.
    if (reason === 'switch-back' && next.proxy.mode === old.mode) {
      await next.discard()
      return true
    }
    const wasFallback = old.mode !== old.configuration.mode
    await old.close()
    // Metrics cannot be read from a closed kernel.
    this.#follow(next.proxy)
    await next.start()
    // A live field may have changed since the proxy was prepared.
    const inForce = this.#configuration
    if (inForce !== configuration && inForce.mode === configuration.mode) next.proxy.reconfigure(inForce)
    const { mode } = next.proxy
    log.info('Replaced the proxy', { mode, previous: old.mode })
    if (wasFallback && mode === 'ipvs') events.record(returnedToIpvs(nodeName, `${REASONS[reason]}; ipvs mode runs`))
    return true
  }
}
