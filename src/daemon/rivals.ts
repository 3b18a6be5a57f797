/**
 * Reports another program that keeps changing what this proxy writes, by one problem, one Event on
 * the Node and, where /proc shows it, the name and id of its process. Repairs of such a key wait
 * longer each time (`Repairs` in `src/sync/key-history.ts`).
 */
import { rivalWrites } from '../events/event-objects.ts'
import type { Events } from '../events/event-recorder.ts'
import { findOtherProxies, type OtherProxies } from '../node/other-proxies.ts'
import type { ProblemLog } from '../serve/problem-log.ts'
import { CONTESTED_REPAIRS } from '../sync/key-history.ts'
import type { PassReport } from '../sync/pass.ts'
import type { Clock } from '../values/clock.ts'
import { quote } from '../values/quote.ts'

export interface RivalsOptions {
  readonly nodeName: string
  readonly problems: ProblemLog
  readonly events?: Events | undefined
  readonly now: Clock
  readonly find?: (writers: readonly number[]) => Promise<OtherProxies>
}

/** Shortest time from one report to the next, and how long a rival must be quiet until the problem is resolved. */
const PERIOD_MS = 600_000
/** A writer whose announcement is older than this is not named. */
const RECENT_MS = 60_000
const MAX_WRITERS = 16

export class Rivals {
  readonly #options: RivalsOptions
  /** Port ids of netlink sockets that changed our items, with the time of the last change, the oldest first. */
  readonly #writers = new Map<number, number>()
  /** Of the last repair of a key that another program keeps changing. */
  #lastMs = 0
  #reportedMs = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: RivalsOptions) {
    this.#options = options
  }

  /**
   * The kernel announced that a netlink socket of this port id, which is usually the id of its
   * process, changed an item of ours.
   */
  wrote(portId: number): void {
    this.#writers.delete(portId)
    this.#writers.set(portId, this.#options.now())
    for (const oldest of this.#writers.keys()) {
      if (this.#writers.size <= MAX_WRITERS) break
      this.#writers.delete(oldest)
    }
  }

  passed({ repairs }: Pick<PassReport, 'repairs'>): void {
    const contested = repairs.find(({ times }) => times >= CONTESTED_REPAIRS)
    if (contested === undefined) return
    this.#lastMs = this.#options.now()
    if (this.#lastMs - this.#reportedMs < PERIOD_MS) return
    this.#reportedMs = this.#lastMs
    this.#watchQuiet()
    void this.#report(contested)
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  /** Resolves the problem once there was no such repair for a period. */
  #watchQuiet(): void {
    const { now, nodeName, problems } = this.#options
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      if (now() - this.#lastMs >= PERIOD_MS) problems.report('rivals', nodeName, [])
      else this.#watchQuiet()
    }, PERIOD_MS).unref()
  }

  async #report({ table, key, times }: PassReport['repairs'][number]): Promise<void> {
    const { nodeName, problems, events, now, find = (writers) => findOtherProxies({ writers }) } = this.#options
    const nowMs = now()
    const writers = [...this.#writers].filter(([, atMs]) => nowMs - atMs <= RECENT_MS).map(([portId]) => portId)
    const processes = namesOf(await find(writers))
    if (this.#isClosed) return
    const message = `another program changed ${key} of ${table} ${times} times, each within a minute of the last repair: ${processes}; of two proxies on a node one must be stopped, and until then repairs of such items wait longer each time, up to 30 s`
    problems.report('rivals', nodeName, [{ code: 'rival-writes', about: 'node', subject: nodeName, message }])
    events?.record(rivalWrites(nodeName, message))
  }
}

/** `"kube-proxy" (pid 812)` */
function namesOf({ found, hidden }: OtherProxies): string {
  if (found.length > 0) return found.map(({ pid, name }) => `${quote(name)} (pid ${pid})`).join(', ')
  return `no process with the name of a service proxy is visible${hidden === undefined ? '' : `; ${hidden}`}`
}
