/**
 * Which real servers have no connections left, or have drained long enough, so that the next pass
 * may remove them. The kernel is asked for the connections of those virtual servers whose check is
 * due.
 */
import { drainingRealServers } from '../../ipvs/diff.ts'
import { Drains } from '../../ipvs/drains.ts'
import type { VirtualServerTable } from '../../ipvs/table.ts'
import type { VirtualServer, VirtualServerOperation } from '../../ipvs/types.ts'
import type { FrontendKey } from '../../service/frontends.ts'
import type { DataplanePass } from '../../sync/loop.ts'
import type { TableSync } from '../../sync/table-sync.ts'
import type { Clock } from '../../values/clock.ts'
import { newBudget } from '../../values/event-loop.ts'
import type { Log } from '../../values/log.ts'

export interface DrainChecksOptions {
  /** Asks the kernel for the connections of a virtual server. */
  readonly connections: VirtualServerTable['connections']
  /** The longest drain, in milliseconds; undefined = without limit. */
  readonly drainDeadlineMs: number | undefined
  readonly now: Clock
  readonly log: Log
}

/** How long a check that is due may wait while changes wait, if no drain has a deadline. */
const DRAINS_WAIT_MS = 5_000

export class DrainChecks {
  readonly drains: Drains
  readonly #virtualServers: Pick<TableSync<VirtualServer, VirtualServerOperation>, 'desired' | 'live' | 'touch'>
  readonly #options: DrainChecksOptions
  /** Deadlines that Services choose, in milliseconds; Infinity: none. */
  readonly #deadlines = new Map<FrontendKey, number>()

  constructor(
    virtualServers: Pick<TableSync<VirtualServer, VirtualServerOperation>, 'desired' | 'live' | 'touch'>,
    options: DrainChecksOptions,
  ) {
    this.#virtualServers = virtualServers
    this.#options = options
    this.drains = new Drains((key) => this.#deadlines.get(key) ?? options.drainDeadlineMs)
  }

  /** @param deadlineMs what the Service of this frontend chooses; undefined: nothing */
  choose(key: FrontendKey, deadlineMs: number | undefined): void {
    if (deadlineMs === undefined) this.#deadlines.delete(key)
    else this.#deadlines.set(key, deadlineMs)
  }

  /** Call it when the virtual server that is wanted, or the one in the kernel, may have changed. */
  observe(key: string): void {
    const draining = drainingRealServers(this.#virtualServers.desired(key), this.#virtualServers.live(key))
    if (draining.length === 0) this.drains.forget(key)
    else this.drains.observe(key, draining, this.#options.now())
  }

  /**
   * Real servers whose drain has ended, by virtual server: those of one stretch. A check that fails
   * is retried later. The removal of a real server makes every addition of the next two to four
   * minutes slower (the kernel walks over all that were removed, ip_vs_trash_get_dest), so
   * additions that wait go first unless drains have deadlines.
   */
  async take({ signal, changesWait }: DataplanePass): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
    const idle = new Map<string, ReadonlySet<string>>()
    const firstDueMs = this.drains.nextDueMs()
    if (firstDueMs === undefined) return idle
    const { now } = this.#options
    const startedMs = now()
    const mayWait = changesWait === true && !this.#hasDeadlines
    if (mayWait && startedMs - firstDueMs < DRAINS_WAIT_MS) return idle
    const budget = newBudget(now)
    do {
      const [key] = this.drains.takeDue(startedMs, 1)
      if (key === undefined) break
      await this.#check(key, startedMs, idle, signal)
      budget.use(1 + (idle.get(key)?.size ?? 0))
    } while (!budget.spent())
    return idle
  }

  /** Then drains end within a second of their deadlines. */
  get #hasDeadlines(): boolean {
    return this.#options.drainDeadlineMs !== undefined || this.#deadlines.size > 0
  }

  async #check(key: string, nowMs: number, idle: Map<string, ReadonlySet<string>>, signal: AbortSignal): Promise<void> {
    const { connections, log } = this.#options
    try {
      const ended = this.drains.finished(key, await connections(key, signal), nowMs)
      if (ended.size === 0) return
      idle.set(key, ended)
      this.#virtualServers.touch(key)
    } catch (error) {
      signal.throwIfAborted()
      log.warn('Cannot count the connections of draining real servers', { virtualServer: key, error })
    }
  }
}
