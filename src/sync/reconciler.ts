/**
 * The loop that every command runs: read what is unknown, diff, apply in a safe order, update the mirror. Tables are listed in
 * creation order (device, virtual servers, addresses). Removals run in the reverse order, after all additions and changes.
 * @impure
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../values/clock.ts'
import { CarefulRead } from './careful-read.ts'
import { batchWritten, type BatchWritten } from './channels.ts'
import { CONTESTED_REPAIRS } from './key-history.ts'
import { type PlanRow, rowsOf } from './plan.ts'
import type { TableSync } from './table-sync.ts'
import type { Direction, Failure, Repair, Step, TableCounts, TableName } from './table.ts'

/** What a pass did. */
export interface PassReport {
  /** Successful operations. */
  readonly applied: number
  readonly failures: readonly (Failure & { readonly table: TableName })[]
  readonly repairs: readonly (Repair & { readonly table: TableName })[]
  /** Tables that could not be read; their keys wait. */
  readonly unreadable: readonly { readonly table: TableName; readonly error: Error }[]
}

export interface PassOptions {
  readonly signal: AbortSignal
  readonly now: Clock
  /** False while some source has not listed yet; until then items that nothing wants are kept. */
  readonly mayRemove: boolean
  /** Parts of items that just had no connections, by table and key. */
  readonly idle?: ReadonlyMap<string, ReadonlySet<string>>
}

export interface PlanOptions extends Pick<PassOptions, 'signal' | 'now'> {
  /** A table that cannot be read is left out. */
  readonly onUnreadable?: (table: TableName, error: Error) => void
}

/**
 * Limits of a slice, which is planned and applied together; the first one reached ends it. They bound memory and the time between
 * two turns of the event loop.
 */
const SLICE_KEYS = 200
const SLICE_OPS = 300
/**
 * Failed keys are retried after all others, this many at a time. After that many repeated failures the retries pause for at least
 * RETRY_PAUSE_MS: a kernel that refuses everything must not delay other changes.
 */
const RETRY_KEYS = 16
const RETRY_PAUSE_MS = 250

/** A table with its state, without its item and operation types. */
export interface Reconciled {
  readonly name: TableName
  readonly counts: TableCounts
  /**
   * Reads what is unknown. Resolves to the reason when the table cannot be read: its keys then wait, and it is read again after a
   * delay. Rejects when aborted.
   */
  read(pass: Pass): Promise<Error | undefined>
  /** Plans a slice of the due keys and runs its additions; removals are left for `remove`. Resolves to false when nothing was due. */
  add(pass: Pass): Promise<boolean>
  /** Runs the removals that `add` has planned. */
  remove(pass: Pass): Promise<void>
  /** The plan, without running anything. Call after `read`. */
  rows(): Iterable<PlanRow>
  allowRemovals(): void
  /** When something is due: the next attempt to read an unreadable table, else the first of its keys. */
  nextDueMs(): number | undefined
}

/** Collects the results of one pass, and knows its time. */
class Pass {
  readonly options: PassOptions
  #nowMs: number | undefined
  applied = 0
  readonly failures: (Failure & { readonly table: TableName })[] = []
  readonly repairs: (Repair & { readonly table: TableName })[] = []
  readonly unreadable: { readonly table: TableName; readonly error: Error }[] = []

  constructor(options: PassOptions) {
    this.options = options
  }

  /**
   * The time after the last exchange with the kernel, or after the last wait. Most tables have nothing to do in most passes, and some
   * kernels and hypervisors make a system call of each look at the clock.
   */
  get nowMs(): number {
    this.#nowMs ??= this.options.now()
    return this.#nowMs
  }

  /** To be called after an exchange with the kernel and after a wait. */
  timePassed(): void {
    this.#nowMs = undefined
  }
}

/** Splits steps into slices of the planned size. */
function* slicesOf<Item, Op>(steps: readonly Step<Item, Op>[]): Generator<readonly Step<Item, Op>[]> {
  let from = 0
  let ops = 0
  for (const [index, step] of steps.entries()) {
    ops += step.ops.length
    const to = index + 1
    if (ops < SLICE_OPS && to - from < SLICE_KEYS && to < steps.length) continue
    yield steps.slice(from, to)
    from = to
    ops = 0
  }
}

export interface ReconciledOptions {
  /**
   * Additions and removals that are due are one call of `apply`: for a table that makes all its changes at once and in an order of
   * its choice.
   */
  readonly atOnce?: boolean
}

function countOperations(counts: TableCounts, direction: Direction, all: number, failed: number): void {
  if (direction === 'add') {
    counts.added += all - failed
    counts.addFailed += failed
  } else {
    counts.removed += all - failed
    counts.removeFailed += failed
  }
}

/** Joins a table's state to the loop. */
export function reconciled<Item, Op>(sync: TableSync<Item, Op>, options: ReconciledOptions = {}): Reconciled {
  const { atOnce = false } = options
  const { kind, io, counts } = sync
  const isRemoval = (op: Op): boolean => kind.direction(op) === 'remove'
  const directionOf = (step: Step<Item, Op>): Direction => (step.ops.some(isRemoval) ? 'remove' : 'add')
  /** Planned removals by key: a key that is planned again in the same pass replaces its earlier removals. */
  const removals = new Map<string, Step<Item, Op>>()
  const reading = new CarefulRead(sync)
  /** How many keys may fail again before this pass stops retrying. */
  let retriesLeft = RETRY_KEYS
  /** No failed key is retried before this time. */
  let retryAtMs = Number.NEGATIVE_INFINITY

  /** Returns how many steps failed. */
  async function run(steps: readonly Step<Item, Op>[], direction: Direction | undefined, pass: Pass): Promise<number> {
    if (steps.length === 0) return 0
    const operations = steps.flatMap((step) => step.ops)
    const outcomes = await io.apply(operations, pass.options.signal)
    if (batchWritten.hasSubscribers) {
      const text = (op: Op): string => kind.text(op)
      batchWritten.publish({ table: kind.name, operations, outcomes, text } satisfies BatchWritten<Op>)
    }
    pass.timePassed()
    const { nowMs } = pass
    let next = 0
    let failed = 0
    for (const step of steps) {
      const count = step.ops.length
      const failures = sync.settle(step, outcomes, next, nowMs)
      if (failures.length > 0) failed++
      next += count
      countOperations(counts, direction ?? directionOf(step), count, failures.length)
      pass.applied += count - failures.length
      for (const failure of failures) pass.failures.push({ ...failure, table: kind.name })
    }
    return failed
  }

  /** Retries a slice of the failed keys; false when none may be retried now. */
  async function retry(pass: Pass): Promise<boolean> {
    if (atOnce || retriesLeft <= 0 || pass.nowMs < retryAtMs) return false
    if (sync.takeRetries(pass.nowMs, RETRY_KEYS) === 0) return false
    const error = await reading.read(pass)
    if (error !== undefined) {
      pass.unreadable.push({ table: kind.name, error })
      return false
    }
    const { additions, keys } = planSlice(pass)
    const failed = await run(additions, 'add', pass)
    retriesLeft -= keys - additions.length + failed
    if (retriesLeft <= 0) retryAtMs = pass.nowMs + RETRY_PAUSE_MS
    await nextTurn()
    pass.timePassed()
    return true
  }

  /** Plans one slice. `keys`: how many keys were due; `isFull`: more may be due. */
  function planSlice(pass: Pass): {
    readonly additions: Step<Item, Op>[]
    readonly keys: number
    readonly isFull: boolean
  } {
    const additions: Step<Item, Op>[] = []
    let keys = 0
    let ops = 0
    while (atOnce || (keys < SLICE_KEYS && ops < SLICE_OPS)) {
      // One after the other: a single key may need more operations than a slice has.
      const due = sync.takeDue(1)
      if (due.length === 0) return { additions, keys, isFull: false }
      keys += due.length
      for (const key of due) ops += planKey(key, pass, additions)
    }
    return { additions, keys, isFull: true }
  }

  /** Plans one key: its additions go to `additions`, its removals are left to `remove`. Returns the number of operations. */
  function planKey(key: string, pass: Pass, additions: Step<Item, Op>[]): number {
    removals.delete(key)
    if (sync.mustWait(key)) return 0
    const step = sync.plan(key, pass.options.mayRemove, pass.options.idle?.get(key))
    if (step === undefined) {
      sync.leave(key)
      return 0
    }
    const admission = sync.admit(step, pass)
    if (!admission.now) return 0
    if (admission.repair !== undefined) {
      counts.repaired++
      if (admission.repair.times >= CONTESTED_REPAIRS) counts.contested++
      pass.repairs.push({ ...admission.repair, table: kind.name })
    }
    if (atOnce || !step.ops.some(isRemoval)) additions.push(step)
    else {
      const { desired } = step
      const rest = step.ops.filter((op) => !isRemoval(op))
      if (rest.length > 0) additions.push({ key, ops: rest, desired })
      removals.set(key, { key, ops: step.ops.filter(isRemoval), desired })
    }
    return step.ops.length
  }

  return {
    name: kind.name,
    counts,
    async read(pass) {
      removals.clear()
      retriesLeft = RETRY_KEYS
      if (atOnce) sync.takeRetries(pass.nowMs, Number.POSITIVE_INFINITY)
      return reading.read(pass)
    },
    async add(pass) {
      const { additions, keys, isFull } = planSlice(pass)
      await run(additions, atOnce ? undefined : 'add', pass)
      if (isFull) {
        await nextTurn()
        pass.timePassed()
      }
      return keys > 0 || retry(pass)
    },
    async remove(pass) {
      const steps = Array.from(removals.values())
        .filter((step) => sync.mayRemove(step))
        .toReversed()
      removals.clear()
      for (const slice of slicesOf(steps)) {
        await run(slice, 'remove', pass)
        if (slice.at(-1) === steps.at(-1)) continue
        await nextTurn()
        pass.timePassed()
      }
    },
    rows: () => rowsOf(sync),
    allowRemovals: () => sync.allowRemovals(),
    nextDueMs() {
      if (reading.retryAtMs !== undefined) return reading.retryAtMs
      const next = sync.nextDueMs()
      // Dirty keys never wait.
      return next === undefined || next === 0 ? next : Math.max(next, retryAtMs)
    },
  }
}

/**
 * A table; or several tables that are written together, a slice of each in turn, so that what is first in all of them is written
 * first; or a function to call at this point of each pass.
 */
export type Stage = Reconciled | readonly Reconciled[] | (() => void)

export class Reconciler {
  readonly #tables: readonly Reconciled[]
  readonly #stages: readonly Stage[]
  #mayRemove = false

  /** Tables in creation order. */
  constructor(stages: readonly Stage[]) {
    this.#stages = stages
    this.#tables = stages.flatMap((stage) => (typeof stage === 'function' ? [] : stage))
  }

  /** One pass over everything that is due. Rejects only when aborted. */
  async pass(options: PassOptions): Promise<PassReport> {
    const pass = new Pass(options)
    this.#allowRemovals(options.mayRemove)
    const readable = new Set<Reconciled>()
    for (const table of this.#tables) {
      const error = await table.read(pass)
      if (error === undefined) readable.add(table)
      else pass.unreadable.push({ table: table.name, error })
    }
    for (const stage of this.#stages) {
      if (typeof stage === 'function') stage()
      else
        await addTogether(
          [stage].flat().filter((table) => readable.has(table)),
          pass,
        )
    }
    for (const table of this.#tables.toReversed()) if (readable.has(table)) await table.remove(pass)
    return pass
  }

  /**
   * What a pass that may remove would find and do, table by table; nothing changes. Rejects when a table cannot be read, unless
   * `onUnreadable` takes note of it.
   */
  async plan(options: PlanOptions): Promise<PlanRow[]> {
    const pass = new Pass({ ...options, mayRemove: true })
    const readable: Reconciled[] = []
    for (const table of this.#tables) {
      const error = await table.read(pass)
      if (error === undefined) readable.push(table)
      else if (options.onUnreadable === undefined) throw error
      else options.onUnreadable(table.name, error)
    }
    return readable.flatMap((table) => Array.from(table.rows()))
  }

  #allowRemovals(mayRemove: boolean): void {
    if (mayRemove && !this.#mayRemove) for (const table of this.#tables) table.allowRemovals()
    this.#mayRemove = mayRemove
  }

  /** When the next delayed key or table is due, in milliseconds of the pass clock; undefined when nothing waits. */
  nextDueMs(): number | undefined {
    let next: number | undefined
    for (const table of this.#tables) {
      const at = table.nextDueMs()
      if (at !== undefined && (next === undefined || at < next)) next = at
    }
    return next
  }
}

async function addTogether(tables: readonly Reconciled[], pass: Pass): Promise<void> {
  for (let some = true; some; ) {
    some = false
    for (const table of tables) if (await table.add(pass)) some = true
  }
}
