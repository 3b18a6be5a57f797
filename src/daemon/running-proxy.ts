/**
 * The proxy that runs, and its replacement by one that may have another mode or firewall. The old proxy runs
 * until the new one has opened the kernel, then hands over its objects and health check ports; the
 * kernel keeps its state in between, and what the old mode left is removed by the new one. Whether
 * a replacement is wanted is decided from the present state each time, never from an earlier one.
 */
import { changesBetween, configChanged } from '../config/changes.ts'
import type { KubeProxyConfiguration, ProxyMode } from '../config/types.ts'
import { returnedToIpvs } from '../events/event-objects.ts'
import type { Events } from '../events/event-recorder.ts'
import { CodedError } from '../values/errors.ts'
import type { Clock } from '../values/clock.ts'
import type { Log } from '../values/log.ts'
import { type FallbackWatch, watchFallback } from './fallback-watch.ts'
import type { Handover, Proxy } from './proxy.ts'
import { SWITCH_REASONS, type SwitchReason, SwitchSchedule } from './switch-schedule.ts'

/** A proxy that has opened the kernel and applies nothing yet. */
export interface PreparedProxy {
  readonly proxy: Pick<Proxy, 'mode' | 'configuration' | 'metrics' | 'inspected' | 'failed' | 'reconfigure' | 'close'>
  /** @param handover from the proxy before; absent for the first one, which opens the source */
  start(handover?: Handover): Promise<void>
  /** In place of `start`. */
  discard(): Promise<void>
}

/** What a proxy is prepared for. */
export interface ProxyPurpose {
  /** It takes the place of another proxy of this process. */
  readonly isReplacement: boolean
  /** It may fall back to iptables mode, where the configuration allows it. */
  readonly mayFallBack: boolean
}

export interface RunningProxyOptions {
  /**
   * Opens the kernel, and changes nothing that a running proxy needs. Rejects when no mode that is
   * allowed works here.
   */
  readonly prepare: (configuration: KubeProxyConfiguration, purpose: ProxyPurpose) => Promise<PreparedProxy>
  /** Replaces nothing: the process ends after one pass. */
  readonly once: boolean
  readonly nodeName: string
  readonly events: Events
  readonly log: Log
  readonly now: Clock
  /** As `watchFallback`; a test replaces it. */
  readonly ask?: (configuration: KubeProxyConfiguration, signal: AbortSignal) => Promise<readonly string[]>
}

export class RunningProxy {
  readonly #options: RunningProxyOptions
  readonly #schedule: SwitchSchedule
  readonly #failure = Promise.withResolvers<never>()
  /** Of one switch: a promise that outlives a race keeps its result, here a whole proxy. */
  #closed = Promise.withResolvers<never>()
  #isClosed = false
  /** What the file says; the proxy that runs may have an earlier configuration with another mode. */
  #configuration: KubeProxyConfiguration
  #proxy: PreparedProxy['proxy'] | undefined
  #watch: FallbackWatch | undefined
  /** The kernel of the proxy that runs has lost IPVS. */
  #isIpvsLost = false
  /** The kernel has everything for ipvs mode, as far as is known, and the proxy that runs is a fallback. */
  #isIpvsReady = false
  /** Resolves when the switch that is under way has ended. */
  #switching: Promise<void> | undefined
  /** The switch that is under way has stopped the proxy before, and the next one has not started. */
  #isBetween = false

  constructor(configuration: KubeProxyConfiguration, options: RunningProxyOptions) {
    this.#configuration = configuration
    this.#options = options
    const { log, now } = options
    this.#schedule = new SwitchSchedule({
      begin: (reason) => {
        this.#switching = this.#switch(reason)
      },
      log,
      now,
    })
    // Handled even when they reject before the daemon waits for them.
    for (const { promise } of [this.#failure, this.#closed]) promise.catch(() => undefined)
  }

  /** Starts the first proxy. Rejects with `module-missing` and the like when no mode that is allowed works here. */
  async start(): Promise<void> {
    const prepared = await this.#options.prepare(this.#configuration, { isReplacement: false, mayFallBack: true })
    await prepared.start()
    this.#follow(prepared.proxy)
    this.#consider()
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

  /** Rejects when only a new process can help. */
  get failed(): Promise<never> {
    return this.#failure.promise
  }

  /**
   * Applies a configuration that differs only in live fields, and in fields without effect: another
   * mode by a new proxy.
   */
  reconfigure(configuration: KubeProxyConfiguration): void {
    this.#configuration = configuration
    this.#applyLive()
    // kubeIPVS.switchBack may be on now.
    this.#watch?.ask()
    // A changed file may make possible what failed before, so it waits for no retry.
    this.#schedule.forgetFailure()
    this.#consider()
  }

  /** Makes `failed` reject. */
  fail(error: CodedError): void {
    this.#failure.reject(error)
  }

  /** The kernel has no IPVS any more. A new proxy uses it when the kernel can load it again, else it falls back. */
  ipvsLost(): void {
    this.#isIpvsLost = true
    this.#consider()
  }

  /** Asks the kernel at once whether ipvs mode is possible; false: the proxy is not in a fallback. */
  askKernel(): boolean {
    this.#watch?.ask()
    return this.#watch !== undefined
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#closed.reject(new CodedError('closed', 'the proxy is stopping'))
    this.#consider()
    this.#watch?.close()
    await this.#switching
    await this.#proxy?.close()
  }

  #follow(proxy: PreparedProxy['proxy']): void {
    const { once, log, ask } = this.#options
    this.#proxy = proxy
    // These were about the proxy before.
    this.#isIpvsLost = false
    this.#isIpvsReady = false
    proxy.failed.catch((error: unknown) => {
      if (this.#proxy === proxy) this.#failure.reject(error)
    })
    this.#watch?.close()
    this.#watch = undefined
    if (once || proxy.mode === proxy.configuration.mode) return
    this.#watch = watchFallback({
      configuration: () => proxy.configuration,
      onReady: () => {
        this.#isIpvsReady = true
        this.#consider()
      },
      log,
      ...(ask === undefined ? {} : { ask }),
    })
  }

  /**
   * Gives the proxy that runs the configuration, unless that has another mode. Another firewall
   * needs another proxy too; until there is one, the proxy that runs keeps its own. While another
   * mode was configured, a field may have changed that had no effect there.
   */
  #applyLive(): void {
    const { mode, kubeIPVS } = this.#configuration
    if (this.#isBetween || mode !== this.configuration.mode) return
    const { restart } = changesBetween(this.configuration, this.#configuration, this.mode)
    if (restart.length > 0) return this.fail(configChanged(restart))
    const { firewall } = this.configuration.kubeIPVS
    const isSame = mode !== 'ipvs' || kubeIPVS.firewall === firewall
    this.#proxy?.reconfigure(
      isSame ? this.#configuration : { ...this.#configuration, kubeIPVS: { ...kubeIPVS, firewall } },
    )
  }

  /** Why the proxy that runs has to be replaced, from what is true now; undefined: it does not have to. */
  get #reason(): SwitchReason | undefined {
    if (this.#isClosed || this.#options.once || this.#proxy === undefined) return undefined
    const { mode, kubeIPVS } = this.#configuration
    if (mode !== this.#proxy.configuration.mode) return 'configuration'
    if (this.#isIpvsLost) return 'ipvs-lost'
    if (mode === 'ipvs' && kubeIPVS.firewall !== this.#proxy.configuration.kubeIPVS.firewall) return 'firewall'
    return this.#isIpvsReady && kubeIPVS.switchBack ? 'switch-back' : undefined
  }

  /** Call it after each change of what `#reason` reads. Several reasons are one switch. */
  #consider(): void {
    if (this.#switching === undefined) this.#schedule.want(this.#reason)
  }

  /** Never rejects. */
  async #switch(reason: SwitchReason): Promise<void> {
    const configuration = this.#configuration
    const isDone = await this.#replace(reason, configuration).catch((error: unknown) => {
      this.#failure.reject(error)
      return true
    })
    this.#switching = undefined
    if (!isDone && this.#configuration === configuration) this.#schedule.failed(reason)
    else this.#schedule.forgetFailure()
    this.#consider()
  }

  /** Resolves to false when no proxy could be prepared. Rejects when neither proxy runs. */
  async #replace(reason: SwitchReason, configuration: KubeProxyConfiguration): Promise<boolean> {
    const { prepare, events, nodeName, log } = this.#options
    const old = this.#proxy
    if (old === undefined) return true
    log.info('Replacing the proxy', { mode: old.mode, configured: configuration.mode, reason: SWITCH_REASONS[reason] })
    // A node that serves in ipvs mode is not taken out of it for a firewall that cannot work.
    const mayFallBack = reason !== 'firewall' || old.mode !== 'ipvs'
    this.#closed = Promise.withResolvers<never>()
    const preparing = prepare(configuration, { isReplacement: true, mayFallBack })
    let next: PreparedProxy
    try {
      next = await Promise.race([preparing, this.#closed.promise])
    } catch (error) {
      if (this.#isClosed) {
        void preparing.then((late) => late.discard()).catch(() => undefined)
        return true
      }
      const { firewall } = configuration.kubeIPVS
      if (mayFallBack)
        log.warn('Cannot switch the mode; the running mode stays and the switch is retried', { mode: old.mode, error })
      else log.warn('Cannot switch the firewall; the running one stays until a retry', { firewall, error })
      return false
    }
    if (reason === 'switch-back' && next.proxy.mode === old.mode) {
      // Something went missing again since the kernel was asked.
      this.#isIpvsReady = false
      await next.discard()
      return true
    }
    if (!this.#isStillWanted(next.proxy.mode, configuration)) {
      await next.discard()
      if (!this.#isClosed)
        log.info('The proxy is not replaced, because the configuration changed again', { mode: old.mode })
      return true
    }
    const wasFallback = old.mode !== old.configuration.mode
    this.#isBetween = true
    this.#schedule.switched()
    const handover = await old.close(true)
    if (this.#isClosed) {
      this.#proxy = undefined
      await Promise.all([next.discard(), handover?.close()])
      return true
    }
    // Metrics cannot be read from a closed kernel.
    this.#follow(next.proxy)
    await next.start(handover)
    this.#isBetween = false
    // A live field may have changed since the proxy was prepared.
    if (this.#configuration !== configuration) this.#applyLive()
    const { mode } = next.proxy
    log.info('Replaced the proxy', { mode, previous: old.mode })
    if (wasFallback && mode === 'ipvs')
      events.record(returnedToIpvs(nodeName, `${SWITCH_REASONS[reason]}; ipvs mode runs`))
    return true
  }

  /**
   * Whether a proxy that was prepared for this configuration, and has this mode, is the one that
   * the present state asks for.
   */
  #isStillWanted(mode: ProxyMode, prepared: KubeProxyConfiguration): boolean {
    const present = this.#configuration
    const isSame =
      this.#reason !== undefined &&
      present.mode === prepared.mode &&
      present.kubeIPVS.firewall === prepared.kubeIPVS.firewall
    return isSame && changesBetween(prepared, present, mode).restart.length === 0
  }
}
