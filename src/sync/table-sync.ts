/**
 * The state of one kernel table: the desired items, the mirror of the live ones, and the keys that
 * need work. Only the reconciler calls read, plan and settle. The mirror holds only what was read
 * plus what was applied with success. Any doubt (a failure, a foreign change, an overrun) makes the
 * key unknown, and the kernel is read again before anything is decided about it.
 * @impure
 */
import { newBudget } from '../values/event-loop.ts'
import { FailedKeys, Repairs } from './key-history.ts'
import { PendingKeys } from './pending-keys.ts'
import { type KeyState, statesOf } from './plan.ts'
import { allDone, noCounts, stepAll } from './table.ts'
import type { Failure, Outcomes, Repair, Step, TableIo, TableSyncOptions } from './table.ts'

export class TableSync<Item, Op> {
  readonly kind: TableIo<Item, Op>['kind']
  readonly io: TableIo<Item, Op>
  readonly counts = noCounts()
  readonly #desired = new Map<string, Item>()
  readonly #live = new Map<string, Item>()
  readonly #pending = new PendingKeys()
  #allUnread = true
  /** Keys that another program may have changed: a difference in one of them is drift. */
  readonly #suspected = new Set<string>()
  readonly #failed = new FailedKeys()
  readonly #repairs = new Repairs()
  /** Keys of items that nothing wants and that may not be removed yet. */
  readonly #postponedRemovals = new Set<string>()
  /** Keys of items that may not be added yet. */
  readonly #postponedAdditions = new Set<string>()
  readonly #options: TableSyncOptions<Item>

  constructor(io: TableIo<Item, Op>, options: TableSyncOptions<Item> = {}) {
    this.kind = io.kind
    this.io = io
    this.#options = options
  }

  /** Sets the desired item of a key; undefined: none. */
  want(key: string, item: Item | undefined): void {
    // A step that follows our own change is no repair, and does not wait as one.
    if (this.#suspected.has(key) && !this.#isDesired(key, item)) this.#suspected.delete(key)
    if (item === undefined) this.#desired.delete(key)
    else this.#desired.set(key, item)
    this.#pending.want(key)
    this.#postponedAdditions.delete(key)
    this.#failed.delete(key)
  }

  #isDesired(key: string, item: Item | undefined): boolean {
    const before = this.#desired.get(key)
    return item === undefined || before === undefined ? item === before : this.kind.equal(item, before)
  }

  desired(key: string): Item | undefined {
    return this.#desired.get(key)
  }

  /** What the kernel had at the last read or write; the desired item itself once a pass found them equal. */
  live(key: string): Item | undefined {
    return this.#live.get(key)
  }

  get desiredCount(): number {
    return this.#desired.size
  }

  get liveCount(): number {
    return this.#live.size
  }

  liveKeys(): IterableIterator<string> {
    return this.#live.keys()
  }

  /** There may be very many, and a loop would allocate an object for each. */
  forEachLive(visit: (item: Item, key: string) => void): void {
    this.#live.forEach(visit)
  }

  desiredKeys(): IterableIterator<string> {
    return this.#desired.keys()
  }

  /** Keys that another program may have changed, or (`isRepaired`) that were set right since: a difference is a repair. */
  doubt(keys: Iterable<string> | 'all', isRepaired = false): void {
    if (keys === 'all') {
      for (const key of this.#live.keys()) this.#suspected.add(key)
      this.#allUnread = true
      return
    }
    for (const key of keys) {
      this.#suspected.add(key)
      if (isRepaired) this.#repairs.note(key)
      this.#pending.doubt(key)
    }
  }

  /** Whether the whole table has been read, and not all of it was doubted since. */
  get isKnown(): boolean {
    return !this.#allUnread
  }

  /** Marks the whole table as unknown without counting a repair, so that the next pass reads it again. */
  forget(): void {
    this.#allUnread = true
  }

  /** Items that nothing wants may be removed from now on: marks the postponed ones as dirty. */
  allowRemovals(): void {
    for (const key of this.#postponedRemovals) this.#pending.mark(key)
    this.#postponedRemovals.clear()
  }

  /** Marks a key as dirty because something outside the table changed. A failed key is retried at once. */
  touch(key: string): void {
    if (!this.#failed.has(key) || !this.#pending.retry(key)) this.#pending.mark(key)
  }

  /** Ends the wait of up to `limit` keys that are due for a retry, and returns how many. Call `read` after it. */
  takeRetries(nowMs: number, limit: number): number {
    return this.#pending.takeRetries(nowMs, limit)
  }

  /**
   * Reads what is unknown, giving others turns. What is doubted meanwhile stays unknown: the kernel
   * may have listed it before. Rejects when the kernel cannot be read; then nothing changes here.
   */
  async read(signal: AbortSignal, budget = newBudget()): Promise<void> {
    const isAll = this.#allUnread
    const keys = this.#pending.takeUnread()
    if (!isAll && keys.length === 0) return
    this.#allUnread = false
    const found = await this.io.list(isAll ? 'all' : keys, signal).catch((error: unknown) => {
      this.#allUnread ||= isAll
      for (const key of keys) this.#pending.doubt(key)
      throw error
    })
    const lists = isAll ? [this.#live.keys(), this.#desired.keys(), found.keys()] : [keys]
    for (const [index, list] of lists.entries())
      for (const key of list) {
        // Those of the mirror come first: another one that it has by now has been set.
        if (index === 0 || !this.#live.has(key)) {
          this.#setLive(key, found.get(key))
          this.#pending.mark(key)
        }
        if (budget.spent()) await budget.turn()
      }
  }

  /** Equal items are shared between desired and live: half the memory, and the next diff is one comparison. */
  #setLive(key: string, item: Item | undefined): void {
    const wanted = this.#desired.get(key)
    if (item === undefined) this.#live.delete(key)
    else this.#live.set(key, wanted !== undefined && wanted !== item && this.kind.equal(wanted, item) ? wanted : item)
  }

  /** The next dirty key, which is not dirty any more; undefined when there is none. Call after `read`. */
  takeDue(): string | undefined {
    return this.#pending.takeDue()
  }

  /** The operations that a key needs. Without `mayRemove` the removal of an item that nothing wants is postponed. */
  plan(key: string, mayRemove: boolean, idle?: ReadonlySet<string>): Step<Item, Op> | undefined {
    const desired = this.#desired.get(key)
    const live = this.#live.get(key)
    if (desired === undefined) {
      if (live === undefined || this.io.isOurs?.(key, live) === false) return undefined
      if (this.#options.mayRemove?.(key) === false) return undefined
      if (!mayRemove) {
        this.#postponedRemovals.add(key)
        return undefined
      }
    }
    const ops = this.kind.diff(key, desired, live, idle)
    if (ops.length === 0) {
      // A restart may read an item before it is wanted.
      if (live !== undefined) this.#setLive(key, live)
      return undefined
    }
    // An added item is just the wanted one: at a cold start that saves a copy for each operation.
    return live === undefined && desired !== undefined ? { key, ops, desired, result: desired } : { key, ops, desired }
  }

  /** The keys that the next pass takes, in its order. */
  dirtyKeys(): Iterable<string> {
    return this.#pending.dirty()
  }

  /** The states of all keys as the mirror has them. A key of very many parts may take milliseconds. */
  states(): Iterable<KeyState> {
    return statesOf(this)
  }

  /**
   * Whether a step may run now. A step on a suspected key is a repair, and a key that needs repairs
   * too often waits longer each time.
   */
  admit({ key, ops }: Step<Item, Op>, nowMs: number): { readonly now: boolean; readonly repair?: Repair } {
    if (!this.#suspected.has(key)) return { now: true }
    const admitted = this.#repairs.admit(key, nowMs)
    if ('waitMs' in admitted) {
      this.#pending.delay(key, nowMs, admitted.waitMs)
      return { now: false }
    }
    this.#suspected.delete(key)
    return { now: true, repair: { key, commands: ops.map((op) => this.kind.text(op)), times: admitted.times } }
  }

  /** The key needs nothing. Returns the number of its repairs if it was set right outside a pass. */
  leave(key: string, nowMs: number): number | undefined {
    this.#suspected.delete(key)
    this.#failed.delete(key)
    this.#options.onExamined?.(key)
    return this.#repairs.takeNoted(key, nowMs)
  }

  /**
   * Applies the outcomes of a step's operations, which begin at index `from`, to the mirror. Returns
   * the failures; after one the key is read again before anything more is decided about it.
   */
  settle(step: Step<Item, Op>, outcomes: Outcomes, from: number, nowMs: number): readonly Failure[] {
    const { key, ops, result } = step
    if (result !== undefined && allDone(outcomes, from, ops.length)) {
      this.#markSucceeded(key)
      this.#remember(key, result)
      return []
    }
    // A key that failed already in this pass is not counted again.
    const { attempts, waitMs } = this.#failed.attempt(key, this.#pending.isDelayed(key))
    const retryAtMs = nowMs + waitMs
    const failures: Failure[] = []
    const done = ops.filter((op, index) => {
      const error = outcomes[from + index]
      if (error !== undefined) failures.push({ key, command: this.kind.text(op), error, attempts, retryAtMs })
      return error === undefined
    })
    const error = failures[0]?.error
    if (error !== undefined) {
      this.#failed.set(key, { attempts, error, isWanted: this.#desired.has(key) })
      this.#pending.delay(key, nowMs, waitMs)
    } else this.#markSucceeded(key)
    this.#remember(key, stepAll(this.kind, this.#live.get(key), done))
    return failures
  }

  /** An earlier failure in the same pass still counts. */
  #markSucceeded(key: string): void {
    if (!this.#pending.isDelayed(key)) this.#failed.delete(key)
  }

  #remember(key: string, live: Item | undefined): void {
    this.#setLive(key, live)
    this.#options.onExamined?.(key)
  }

  /** Postpones a key whose item may not be added yet; returns whether it did. */
  mustWait(key: string): boolean {
    const desired = this.#desired.get(key)
    if (desired === undefined || this.#live.has(key) || this.#options.mayAdd?.(key, desired) !== false) return false
    this.#postponedAdditions.add(key)
    return true
  }

  /** Makes the next pass ask `mayAdd` again about all postponed items. */
  release(): void {
    for (const key of this.#postponedAdditions) this.#pending.mark(key)
    this.#postponedAdditions.clear()
  }

  /** How many items may not be added yet. */
  get waitingCount(): number {
    return this.#postponedAdditions.size
  }

  /** Keys whose last operations failed, and why. */
  *failing(): Generator<readonly [key: string, error: Error], void, undefined> {
    for (const [key, { error }] of this.#failed.entries()) yield [key, error]
  }

  /** The keys whose last operations failed, with counts and codes. */
  get failures(): Pick<FailedKeys, 'get' | 'has' | 'wantedCount' | 'codes'> {
    return this.#failed
  }

  /**
   * Whether removals planned earlier in the pass may still run: the key is wanted as planned and not
   * suspected, and if an operation of it failed, the rest works without what they remove.
   */
  mayRemove({ key, ops, desired }: Step<Item, Op>): boolean {
    if (this.#allUnread || this.#suspected.has(key) || this.#desired.get(key) !== desired) return false
    if (!this.#pending.has(key)) return true
    return this.#failed.has(key) && this.kind.canSpare?.(this.#live.get(key), ops) === true
  }

  /** When something is due: 0 for a dirty key, else the end of the next wait; undefined for nothing. */
  nextDueMs(): number | undefined {
    return this.#pending.nextDueMs()
  }
}
