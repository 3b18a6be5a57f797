/**
 * When the proxy that runs may be replaced by one of another mode: at once, but a few times in a
 * quarter of an hour, and some minutes after an attempt that failed.
 */
import type { Clock } from '../values/clock.ts'
import type { Log } from '../values/log.ts'

export type SwitchReason = 'configuration' | 'firewall' | 'switch-back' | 'ipvs-lost'

export const SWITCH_REASONS: Readonly<Record<SwitchReason, string>> = {
  configuration: 'the mode of the configuration file changed',
  firewall: 'kubeIPVS.firewall of the configuration file changed',
  'switch-back': 'the kernel has everything for ipvs mode now',
  'ipvs-lost': 'the kernel has no IPVS any more',
}

/** An operator can undo a switch at once, but a kernel or a file that alternates cannot keep the node busy. */
const MAX_SWITCHES = 3
const PERIOD_MS = 900_000
const RETRY_MS = 300_000

export interface SwitchScheduleOptions {
  /** Begins a switch. Never called while `want` runs. */
  readonly begin: (reason: SwitchReason) => void
  readonly log: Log
  readonly now: Clock
}

export class SwitchSchedule {
  readonly #options: SwitchScheduleOptions
  /** The reason of the switch that `#timer` begins. */
  #due: SwitchReason | undefined
  #timer: NodeJS.Timeout | undefined
  /** After a switch that failed: when the next one for the same reason may begin. */
  readonly #retryAtMs = new Map<SwitchReason, number>()
  /** When proxies were replaced, the last `MAX_SWITCHES`. */
  #switchedMs: number[] = []

  constructor(options: SwitchScheduleOptions) {
    this.#options = options
  }

  /**
   * Begins a switch as soon as one may begin, unless one waits for the same reason; undefined: none
   * is wanted any more.
   */
  want(reason: SwitchReason | undefined): void {
    if (reason !== undefined && reason === this.#due) return
    clearTimeout(this.#timer)
    this.#due = reason
    if (reason === undefined) return
    const { now, log } = this.#options
    const [oldest] = this.#switchedMs
    const nowMs = now()
    const limitedMs =
      oldest === undefined || this.#switchedMs.length < MAX_SWITCHES ? 0 : Math.max(0, oldest + PERIOD_MS - nowMs)
    const retryMs = Math.max(0, (this.#retryAtMs.get(reason) ?? 0) - nowMs)
    if (limitedMs > 0 && retryMs === 0)
      log.warn('The mode was switched too often; the next switch waits', {
        reason: SWITCH_REASONS[reason],
        seconds: Math.ceil(limitedMs / 1000),
      })
    this.#timer = setTimeout(() => this.#begin(reason), Math.max(limitedMs, retryMs)).unref()
  }

  /** The switch that was begun for this reason has failed, and the next one for it waits. */
  failed(reason: SwitchReason): void {
    this.#retryAtMs.set(reason, this.#options.now() + RETRY_MS)
  }

  /** A proxy is replaced. */
  switched(): void {
    this.#switchedMs = [...this.#switchedMs, this.#options.now()].slice(-MAX_SWITCHES)
  }

  /** What failed may work now, so the next switch waits for no retry, and one that waits is judged again by `want`. */
  forgetFailure(): void {
    this.#retryAtMs.clear()
    this.#due = undefined
  }

  #begin(reason: SwitchReason): void {
    this.#due = undefined
    this.#options.begin(reason)
  }
}
