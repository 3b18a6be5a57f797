/**
 * One kernel table between what is wanted and what is there: the desired items, the mirror of the live ones, and
 * which keys have to be looked at. Single writer: only the reconciler calls read, plan and settle.
 * What could break: the mirror holds only what was read plus what was applied with success. Any doubt (a failure, a
 * foreign change, an overrun) drops the key and the kernel is read again before anything is decided about it.
 * @impure
 */
import { backoffMs } from '../values/backoff.ts'
import { DelayedKeys } from './delayed-keys.ts'
import { FailedKeys, Repairs } from './key-history.ts'
import { allDone, type Failure, type KernelTable, noCounts, type Repair, type Step } from './table.ts'

/** The wait before a failed key is tried again. */
const RETRY_MS = { firstMs: 500, maxMs: 30_000 }

const NO_FAILURES: readonly Failure[] = []

export interface TableSyncOptions<Item> {
  /** Hears of every key that was written or found to need nothing, so that others can derive from it what is due. */
  readonly onExamined?: (key: string) => void
  /** Whether an item that is not there yet may be made now; if not, it waits for `release`. */
  readonly mayCome?: (key: string, item: Item) => boolean
}

export class TableSync<Item, Op> {
  readonly table: KernelTable<Item, Op>
  readonly counts = noCounts()
  readonly #desired = new Map<string, Item>()
  readonly #live = new Map<string, Item>()
  /** Keys that may differ and may be worked on now. */
  readonly #dirty = new Set<string>()
  /** Keys whose live item is not known; `read` marks them dirty. */
  readonly #unread = new Set<string>()
  /** Keys that wait for their next try. They are in neither of the sets above, and are read again before that try. */
  readonly #delayed = new DelayedKeys()
  #allUnread = true
  /** Keys that were doubted from outside: a difference in one of them is drift. */
  readonly #suspected = new Set<string>()
  readonly #failed = new FailedKeys()
  readonly #repairs = new Repairs()
  /** Items that nothing wants and that may not be removed yet. */
  readonly #kept = new Set<string>()
  /** Items that may not be made yet. */
  readonly #waiting = new Set<string>()
  readonly #onExamined: (key: string) => void
  readonly #mayCome: (key: string, item: Item) => boolean

  constructor(table: KernelTable<Item, Op>, options: TableSyncOptions<Item> = {}) {
    this.table = table
    this.#onExamined = options.onExamined ?? (() => undefined)
    this.#mayCome = options.mayCome ?? (() => true)
  }

  /** What this key shall be from now on; undefined: not there. */
  want(key: string, item: Item | undefined): void {
    if (item === undefined) this.#desired.delete(key)
    else this.#desired.set(key, item)
    this.#dirty.add(key)
    this.#waiting.delete(key)
    this.#failed.delete(key)
    if (this.#delayed.delete(key)) this.#unread.add(key)
  }

  desired(key: string): Item | undefined {
    return this.#desired.get(key)
  }

  /** The mirror's item: what the kernel had when last read or written. */
  live(key: string): Item | undefined {
    return this.#live.get(key)
  }

  get desiredCount(): number {
    return this.#desired.size
  }

  get liveCount(): number {
    return this.#live.size
  }

  liveEntries(): IterableIterator<[string, Item]> {
    return this.#live.entries()
  }

  desiredKeys(): IterableIterator<string> {
    return this.#desired.keys()
  }

  /** Somebody may have changed these keys: read them again. A difference that shows is counted as a repair. */
  doubt(keys: Iterable<string> | 'all'): void {
    if (keys === 'all') {
      for (const key of this.#live.keys()) this.#suspected.add(key)
      this.#allUnread = true
      return
    }
    for (const key of keys) {
      this.#suspected.add(key)
      if (!this.#delayed.has(key)) this.#unread.add(key)
    }
  }

  /** Whether the whole table has been read and nobody has cast doubt on all of it since. */
  get isKnown(): boolean {
    return !this.#allUnread
  }

  /** What is known of the whole table may be wrong through no fault of anybody: read all of it again. */
  forget(): void {
    this.#allUnread = true
  }

  /** From now on items that nothing wants may go: those that were kept are looked at again. */
  allowRemovals(): void {
    for (const key of this.#kept) this.#markDirty(key)
    this.#kept.clear()
  }

  /** Looks at a key again now: something outside the table decides more about it (an idle drain). A key that failed is retried at once. */
  touch(key: string): void {
    if (this.#failed.has(key) && this.#delayed.delete(key)) this.#unread.add(key)
    else this.#markDirty(key)
  }

  /** A key that waits for its next try stays where it is. */
  #markDirty(key: string): void {
    if (!this.#delayed.has(key)) this.#dirty.add(key)
  }

  /**
   * Lets up to `limit` keys whose wait is over be tried again, and returns how many they are. Call `read` after it.
   */
  takeRetries(nowMs: number, limit: number): number {
    const due = this.#delayed.takeDue(nowMs, limit)
    for (const key of due) this.#unread.add(key)
    return due.length
  }

  /** Reads what is not known. Rejects when the kernel cannot be read; then nothing is changed here. */
  async read(signal: AbortSignal): Promise<void> {
    if (this.#allUnread) {
      const all = await this.table.read('all', signal)
      for (const key of this.#live.keys()) this.#markDirty(key)
      for (const key of this.#desired.keys()) this.#markDirty(key)
      this.#live.clear()
      for (const [key, item] of all) this.#adopt(key, item)
      this.#allUnread = false
      this.#unread.clear()
      return
    }
    if (this.#unread.size === 0) return
    const keys = Array.from(this.#unread)
    const found = await this.table.read(keys, signal)
    for (const key of keys) {
      this.#unread.delete(key)
      const item = found.get(key)
      if (item === undefined) {
        this.#live.delete(key)
        this.#markDirty(key)
      } else this.#adopt(key, item)
    }
  }

  /** Equal items are shared between desired and live: half the memory, and the next diff is one comparison. */
  #adopt(key: string, item: Item): void {
    const wanted = this.#desired.get(key)
    this.#live.set(key, wanted !== undefined && this.table.equal(wanted, item) ? wanted : item)
    this.#markDirty(key)
  }

  /** Keys that may need work and may be worked on now, taken off the list. Call after `read`. */
  takeDue(limit: number): string[] {
    const due: string[] = []
    for (const key of this.#dirty) {
      if (this.#unread.has(key)) continue
      due.push(key)
      if (due.length >= limit) break
    }
    for (const key of due) this.#dirty.delete(key)
    return due
  }

  /** What has to be done to one key. `mayRemove` false: whole items that nothing wants are kept for now (and looked at again). */
  plan(key: string, mayRemove: boolean, idle?: ReadonlySet<string>): Step<Item, Op> | undefined {
    const desired = this.#desired.get(key)
    const live = this.#live.get(key)
    if (desired === undefined) {
      if (live === undefined || !this.table.isOurs(key, live)) return undefined
      if (!mayRemove) {
        this.#kept.add(key)
        return undefined
      }
    }
    const ops = this.table.diff(key, desired, live, idle)
    if (ops.length === 0) return undefined
    // What is made from nothing is just what is wanted: at a cold start that saves a copy for each operation.
    return live === undefined && desired !== undefined ? { key, ops, desired, result: desired } : { key, ops, desired }
  }

  /**
   * Whether a step may run now. A step on a doubted key is a repair; one that is needed too often waits longer each
   * time, so that two programs do not fight at full speed.
   */
  admit(step: Step<Item, Op>, nowMs: number): { readonly now: boolean; readonly repair?: Repair } {
    const { key } = step
    if (!this.#suspected.has(key)) return { now: true }
    const admitted = this.#repairs.admit(key, nowMs)
    if ('waitMs' in admitted) {
      this.#delay(key, nowMs, admitted.waitMs)
      return { now: false }
    }
    this.#suspected.delete(key)
    return {
      now: true,
      repair: { key, commands: step.ops.map((op) => this.table.format(op)), times: admitted.times },
    }
  }

  /** Nothing has to be done to this key now: if it was doubted, it was right all the time. */
  leave(key: string): void {
    this.#suspected.delete(key)
    this.#failed.delete(key)
    this.#onExamined(key)
  }

  /**
   * Takes the outcomes of a step's operations, which begin at `from`, into the mirror. Returns the failures; their key is
   * read again before anything more is decided about it.
   */
  settle(
    step: Step<Item, Op>,
    outcomes: readonly (Error | undefined)[],
    from: number,
    nowMs: number,
  ): readonly Failure[] {
    const { key, ops, result } = step
    if (result !== undefined && allDone(outcomes, from, ops.length)) {
      this.#worked(key)
      this.#remember(key, result)
      return NO_FAILURES
    }
    const failures: Failure[] = []
    let live = this.#live.get(key)
    // A key that failed already in this pass is not counted again.
    const isRepeated = this.#delayed.has(key)
    const attempts = Math.max(1, (this.#failed.get(key)?.attempts ?? 0) + (isRepeated ? 0 : 1))
    const waitMs = backoffMs(RETRY_MS, attempts)
    const retryAtMs = nowMs + waitMs
    ops.forEach((op, index) => {
      const error = outcomes[from + index]
      if (error === undefined) live = this.table.step(live, op)
      else failures.push({ key, command: this.table.format(op), error, attempts, retryAtMs })
    })
    const error = failures.at(-1)?.error
    if (error !== undefined) {
      this.#failed.set(key, { attempts, error, isWanted: this.#desired.has(key) })
      this.#delay(key, nowMs, waitMs)
    } else this.#worked(key)
    this.#remember(key, live)
    return failures
  }

  /** A failure earlier in the pass still counts. */
  #worked(key: string): void {
    if (!this.#delayed.has(key)) this.#failed.delete(key)
  }

  #delay(key: string, nowMs: number, waitMs: number): void {
    this.#dirty.delete(key)
    this.#unread.delete(key)
    this.#delayed.add(key, nowMs, waitMs)
  }

  #remember(key: string, live: Item | undefined): void {
    const wanted = this.#desired.get(key)
    if (live === undefined) this.#live.delete(key)
    else this.#live.set(key, wanted !== undefined && this.table.equal(wanted, live) ? wanted : live)
    this.#onExamined(key)
  }

  /** Puts a key off whose item may not be made yet; true when it was. */
  mustWait(key: string): boolean {
    const desired = this.#desired.get(key)
    if (desired === undefined || this.#live.has(key) || this.#mayCome(key, desired)) return false
    this.#waiting.add(key)
    return true
  }

  /** Items that wait for `mayCome` are asked about again at the next pass. */
  release(): void {
    for (const key of this.#waiting) this.#markDirty(key)
    this.#waiting.clear()
  }

  /** Items that may not be made yet. */
  get waitingCount(): number {
    return this.#waiting.size
  }

  /** Keys whose last operations failed, and why. */
  *failing(): Generator<readonly [key: string, error: Error], void, undefined> {
    for (const [key, { error }] of this.#failed.entries()) yield [key, error]
  }

  /** Numbers of the keys whose last operations failed. */
  get failures(): Pick<FailedKeys, 'wantedCount' | 'codes'> {
    return this.#failed
  }

  /**
   * Whether removals that were planned earlier in the pass may still run: nobody wants or suspects anything else by now,
   * and if something of their key failed, what is left does without them.
   */
  mayRemove({ key, ops, desired }: Step<Item, Op>): boolean {
    if (this.#allUnread || this.#suspected.has(key) || this.#desired.get(key) !== desired) return false
    if (!this.#dirty.has(key) && !this.#unread.has(key) && !this.#delayed.has(key)) return true
    return this.#failed.has(key) && this.table.canSpare?.(this.#live.get(key), ops) === true
  }

  /** When something is due: 0 for a key that may be worked on now, else the end of the next wait; undefined for nothing. */
  nextDueMs(): number | undefined {
    return this.#dirty.size > 0 || this.#unread.size > 0 ? 0 : this.#delayed.nextMs()
  }
}
