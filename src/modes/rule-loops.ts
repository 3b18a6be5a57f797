/**
 * The loops over rules, one for each family. They run concurrently with the passes, because a
 * process may be slow or hang: no family waits for the other one, and no pass waits for a process.
 * A writing that failed says little about what is in the kernel, so everything is read again after
 * it.
 */
import { Pacer } from '../sync/pacer.ts'
import { rulesOf } from '../sync/part.ts'
import type { PassReport } from '../sync/pass.ts'
import { reconciled } from '../sync/reconciled.ts'
import { Reconciler } from '../sync/reconciler.ts'
import type { TableIo } from '../sync/table.ts'
import { TableSync } from '../sync/table-sync.ts'
import { CodedError, MissingFeature } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import { type Clock, earliest } from '../values/clock.ts'
import type { PendingPart } from './mode.ts'
import { isTableFaulty } from './table-health.ts'

/** The rules of one family. */
export interface RuleTable<Item, Op> extends TableIo<Item, Op> {
  readonly family: IpFamily
  /** From now on rules that lead to what other modes have stay, in front of ours, until `replaceOthers`. */
  keepOthers(): void
  replaceOthers(): void
  /** When the rules have to be read again without an announcement, on the clock of the loop; undefined: never. */
  nextReadMs(): number | undefined
}

export interface RuleLoopOptions<Item, Op> {
  readonly now: Clock
  /**
   * Called after each pass; missing features do not count as failures. `isFull`: it read all rules
   * first, or nothing was written before.
   */
  readonly onPass: (report: PassReport, durationMs: number, loop: RuleLoop<Item, Op>, isFull: boolean) => void
  /** The kernel turned out to lack a feature; the item was written without what needs it. */
  readonly onMissing: (error: MissingFeature) => void
  /** A pass failed for a reason that nothing foresaw; the loop retries. */
  readonly onError: (error: unknown) => void
}

/** The wait after such a failure. */
const UNEXPECTED_RETRY_MS = 1000
/** An item that was refused so many times in a row is not waited for; that takes about eight seconds. */
const REFUSALS = 5

export class RuleLoop<Item, Op> implements PendingPart {
  readonly name: string
  readonly families: readonly IpFamily[]
  readonly sync: TableSync<Item, Op>
  readonly #table: RuleTable<Item, Op>
  readonly #options: RuleLoopOptions<Item, Op>
  readonly #reconciler: Reconciler
  readonly #pacer: Pacer
  #mayRemove = false
  #keepsOthers = false
  #clean = false
  #hasWritten = false
  #requested = 0
  #done = 0

  constructor(table: RuleTable<Item, Op>, options: RuleLoopOptions<Item, Op>) {
    this.#options = options
    this.#table = table
    const { name, families } = rulesOf(table.family)
    this.name = name
    this.families = families
    this.sync = new TableSync(table)
    // One process for all additions and removals: in iptables mode these may be thousands of chains.
    this.#reconciler = new Reconciler([reconciled(this.sync, { atOnce: true })])
    this.#pacer = new Pacer({ minPeriodMs: () => 0, now: options.now, run: (signal) => this.#run(signal) })
  }

  get family(): IpFamily {
    return this.#table.family
  }

  /** Requests a pass as soon as possible. */
  request(): void {
    this.#requested++
    this.#pacer.request()
  }

  /** From now on passes remove rules that nothing wants: those of Services, and what the other mode left. */
  allowRemovals(): void {
    if (this.#mayRemove) return
    this.#mayRemove = true
    this.request()
  }

  /** Until `replaceOthers` another mode gets the traffic that leads to it. */
  keepOthers(): void {
    this.#keepsOthers = true
    this.#table.keepOthers()
  }

  /** This mode can serve everything: its rules alone stay. */
  replaceOthers(): void {
    if (!this.#keepsOthers) return
    this.#keepsOthers = false
    this.#table.replaceOthers()
    const changed = Array.from(this.sync.desiredKeys()).filter((key) => this.sync.desired(key) !== this.sync.live(key))
    for (const key of changed) this.sync.touch(key)
    if (changed.length > 0) this.request()
  }

  /** Whether a requested pass has not ended yet. */
  get isPending(): boolean {
    return this.#done < this.#requested
  }

  /**
   * Whether the last pass was allowed to remove, and `isWritten`. What could not be removed is
   * retried and does not count: a foreign rule may jump to it for months.
   */
  get isClean(): boolean {
    return this.#clean
  }

  /** Stops, and ends a running process. */
  close(): Promise<void> {
    return this.#pacer.close()
  }

  #isIdle(): boolean {
    return this.#reconciler.nextDueMs() === undefined
  }

  /**
   * Whether everything that is wanted is in the kernel, whatever else is there. Single items that
   * are refused again and again do not count: the kernel may lack what they need for ever.
   */
  get isWritten(): boolean {
    return !this.isPending && (this.#isIdle() || this.#hasAllPossible())
  }

  #hasAllPossible(): boolean {
    const { sync } = this
    for (const key of sync.desiredKeys())
      if (sync.desired(key) !== sync.live(key) && sync.plan(key, true) !== undefined && !this.#isRefused(key))
        return false
    return !isTableFaulty(sync)
  }

  /** A lock, a program that does not run, and a failure of a whole table say nothing about the item. */
  #isRefused(key: string): boolean {
    const { attempts = 0, error } = this.sync.failures.get(key) ?? {}
    return attempts >= REFUSALS && error instanceof CodedError && error.code === 'iptables-restore-failed'
  }

  async #run(signal: AbortSignal): Promise<number | undefined> {
    const { now, onPass, onMissing, onError } = this.#options
    const requested = this.#requested
    const startedMs = now()
    const mayRemove = this.#mayRemove
    const dueMs = this.#table.nextReadMs()
    if (dueMs !== undefined && dueMs <= startedMs) this.sync.forget()
    // A first pass may read only, before anything is wanted; the first one that writes is full all the same.
    const isFull = !this.sync.isKnown || !this.#hasWritten
    try {
      const report = await this.#reconciler.pass({ signal, now, mayRemove })
      const failures = report.failures.filter(({ error }) => {
        if (error instanceof MissingFeature) onMissing(error)
        return !(error instanceof MissingFeature)
      })
      if (failures.length > 0) this.sync.forget()
      this.#clean = mayRemove && report.unreadable.length === 0 && (this.#isIdle() || this.#hasAllPossible())
      this.#done = requested
      const { applied, repairs, unreadable } = report
      if (applied > 0) this.#hasWritten = true
      onPass({ applied, repairs, unreadable, failures }, now() - startedMs, this, isFull)
      const nextMs = this.#reconciler.nextDueMs()
      return unreadable.length > 0 ? nextMs : earliest(nextMs, this.#table.nextReadMs())
    } catch (error) {
      if (signal.aborted) return undefined
      this.#done = requested
      onError(error)
      return now() + UNEXPECTED_RETRY_MS
    }
  }
}

/** The loops of all families that a mode serves. */
export class RuleLoops<Item, Op> {
  readonly all: readonly RuleLoop<Item, Op>[]

  constructor(tables: readonly RuleTable<Item, Op>[], options: RuleLoopOptions<Item, Op>) {
    this.all = tables.map((table) => new RuleLoop(table, options))
  }

  /** undefined: the family is not served. */
  of(family: IpFamily): RuleLoop<Item, Op> | undefined {
    return this.all.find((loop) => loop.family === family)
  }

  /** Requests a pass of every family; before the first pass of the mode it reads the rules ahead. */
  request(): void {
    for (const loop of this.all) loop.request()
  }

  /** Another program may have changed the rules of this family: they are read again. */
  doubt(family: IpFamily): void {
    const loop = this.of(family)
    loop?.sync.doubt('all')
    loop?.request()
  }

  /** From now on passes remove rules that nothing wants. */
  allowRemovals(): void {
    for (const loop of this.all) loop.allowRemovals()
  }

  /** See `RuleLoop`. */
  keepOthers(): void {
    for (const loop of this.all) loop.keepOthers()
  }

  /** See `RuleLoop`. */
  replaceOthers(): void {
    for (const loop of this.all) loop.replaceOthers()
  }

  /** See `RuleLoop`. */
  get isClean(): boolean {
    return this.all.every((loop) => !loop.isPending && loop.isClean)
  }

  /** See `RuleLoop`. */
  get isWritten(): boolean {
    return this.all.every((loop) => loop.isWritten)
  }

  /** Stops; the kernel stays as it is. */
  async close(): Promise<void> {
    await Promise.all(this.all.map((loop) => loop.close()))
  }
}
