/**
 * When the private tables are read again after announcements. A lost table is rebuilt at once,
 * however often it is lost, but that takes half of the time at most. The first losses count as
 * repairs, so that a rival is reported.
 */
import type { TableSync } from '../../../sync/table-sync.ts'
import type { Clock } from '../../../values/clock.ts'
import type { IpFamily } from '../../../values/protocol.ts'

/** Shortest time from the end of a repair to the next reading. */
const PAUSE_MS = 5
/**
 * So many losses count as repairs. They count again when there was none for QUIET_MS: before, a
 * pass would have to wait with a further one (`Repairs`).
 */
const COUNTED = 3
/** A little longer than repairs are remembered. */
const QUIET_MS = 61_000

export interface TableDoubtsOptions {
  readonly sync: Pick<TableSync<unknown, unknown>, 'doubt' | 'forget' | 'takeRetries'>
  /** The keys of what is always in the table of a family. */
  readonly keysOf: (family: IpFamily) => readonly string[]
  readonly now: Clock
  /**
   * Writes all that is wanted in the table of a family at once, if there is none and that is not too
   * much. Returns whether it did. Never rejects.
   */
  readonly rebuild: (family: IpFamily) => Promise<boolean>
  /** A pass should read the tables. */
  readonly onDoubt: () => void
}

export class TableDoubts {
  readonly #options: TableDoubtsOptions
  readonly #lost = new Set<IpFamily>()
  #isChanged = false
  #isMissed = false
  /** The losses of a family that have counted as repairs, and when the last of them did. */
  readonly #counted = new Map<IpFamily, { readonly times: number; readonly lastMs: number }>()
  /** When the tables were doubted whose repair has not ended. */
  #doubtedMs: number | undefined
  #readsAtMs = 0
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: TableDoubtsOptions) {
    this.#options = options
  }

  /** Another program changed the table of a family, or removed it. */
  changed(family: IpFamily, isLost: boolean): void {
    if (isLost) this.#lost.add(family)
    else this.#isChanged = true
    this.#schedule()
  }

  /** Announcements may have been lost. */
  missed(): void {
    this.#isMissed = true
    this.#schedule()
  }

  /** Everything was written that was due. */
  written(): void {
    if (this.#doubtedMs === undefined) return
    const nowMs = this.#options.now()
    this.#readsAtMs = nowMs + Math.max(PAUSE_MS, nowMs - this.#doubtedMs)
    this.#doubtedMs = undefined
    if (this.#lost.size > 0 || this.#isChanged || this.#isMissed) this.#schedule()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  #schedule(): void {
    if (this.#isClosed || this.#doubtedMs !== undefined || this.#timer !== undefined) return
    const waitMs = Math.max(0, this.#readsAtMs - this.#options.now())
    // At the next turn at the earliest: both families are lost together.
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      void this.#doubt()
    }, waitMs)
  }

  async #doubt(): Promise<void> {
    const { sync, keysOf, now, rebuild, onDoubt } = this.#options
    const nowMs = now()
    this.#doubtedMs = nowMs
    if (this.#isChanged) sync.doubt('all')
    for (const family of this.#lost) {
      const isRebuilt = await rebuild(family)
      if (this.#isCounted(family, nowMs)) sync.doubt(keysOf(family), isRebuilt)
    }
    // What failed because the table was gone need not wait.
    if (this.#lost.size > 0) sync.takeRetries(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY)
    sync.forget()
    this.#lost.clear()
    this.#isChanged = false
    this.#isMissed = false
    if (!this.#isClosed) onDoubt()
  }

  #isCounted(family: IpFamily, nowMs: number): boolean {
    const before = this.#counted.get(family)
    const times = before === undefined || nowMs - before.lastMs > QUIET_MS ? 0 : before.times
    if (times >= COUNTED) return false
    this.#counted.set(family, { times: times + 1, lastMs: nowMs })
    return true
  }
}
