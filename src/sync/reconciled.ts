/**
 * A table joined to the loop: each stretch of its due keys is planned and applied together.
 * Removals that are planned run at the end of the pass, and failed keys are tried again after all
 * others.
 * @impure
 */
import { backoffMs } from '../values/backoff.ts'
import { asError } from '../values/errors.ts'
import { batchWritten, type BatchWritten } from './channels.ts'
import { CONTESTED_REPAIRS } from './key-history.ts'
import type { Pass } from './pass.ts'
import { type PlanRow, rowsOf } from './plan.ts'
import type { TableSync } from './table-sync.ts'
import type { Direction, Repair, Step, TableCounts, TableName } from './table.ts'

/**
 * Failed keys are retried after all others, this many at a time. After that many repeated failures
 * the retries pause for at least RETRY_PAUSE_MS: a kernel that refuses everything must not delay
 * other changes.
 */
const RETRY_KEYS = 16
const RETRY_PAUSE_MS = 250

/** The wait before a table that could not be read is read again. */
const REREAD_MS = { firstMs: 1000, maxMs: 30_000 }

/** A table with its state, without its item and operation types. */
export interface Reconciled {
  readonly name: TableName
  readonly counts: TableCounts
  /**
   * Reads what is unknown. Resolves to the reason when the table cannot be read: its keys then
   * wait, and it is read again after a delay. Rejects when aborted.
   */
  read(pass: Pass): Promise<Error | undefined>
  /**
   * Plans a stretch of the due keys and runs its additions; removals are left for `remove`.
   * Resolves to false when nothing was due.
   */
  add(pass: Pass): Promise<boolean>
  /** Runs the removals that `add` has planned. */
  remove(pass: Pass): Promise<void>
  /** The plan, without running anything. Call after `read`. */
  rows(): Iterable<PlanRow>
  allowRemovals(): void
  /** When something is due: the next attempt to read an unreadable table, else the first of its keys. */
  nextDueMs(): number | undefined
}

export interface ReconciledOptions {
  /**
   * Additions and removals that are due are one call of `apply`: for a table that makes all its
   * changes at once and in an order of its choice.
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
  /** The table cannot be read: passes go on without it. */
  let unreadable: { readonly error: Error; readonly tries: number; readonly retryAtMs: number } | undefined
  /** How many keys may fail again before this pass stops retrying. */
  let retriesLeft = RETRY_KEYS
  /** No failed key is retried before this time. */
  let retryAtMs = Number.NEGATIVE_INFINITY

  /** Resolves to the reason why the table cannot be read; undefined when nothing in it is unknown. */
  async function read(pass: Pass): Promise<Error | undefined> {
    if (unreadable !== undefined && pass.nowMs < unreadable.retryAtMs) return unreadable.error
    try {
      await sync.read(pass.options.signal, pass.budget)
      unreadable = undefined
    } catch (thrown) {
      pass.options.signal.throwIfAborted()
      counts.unreadable++
      const tries = (unreadable?.tries ?? 0) + 1
      unreadable = { error: asError(thrown), tries, retryAtMs: pass.nowMs + backoffMs(REREAD_MS, tries) }
    }
    return unreadable?.error
  }

  /** Returns how many steps failed. */
  async function run(steps: readonly Step<Item, Op>[], direction: Direction | undefined, pass: Pass): Promise<number> {
    if (steps.length === 0) return 0
    const operations = steps.flatMap((step) => step.ops)
    const outcomes = await io.apply(operations, pass.options.signal)
    if (batchWritten.hasSubscribers) {
      const text = (op: Op): string => kind.text(op)
      batchWritten.publish({ table: kind.name, operations, outcomes, text } satisfies BatchWritten<Op>)
    }
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

  /** Retries a stretch of the failed keys; false when none may be retried now. */
  async function retry(pass: Pass): Promise<boolean> {
    if (atOnce || retriesLeft <= 0 || sync.nextDueMs() === undefined) return false
    const { nowMs } = pass
    if (nowMs < retryAtMs || sync.takeRetries(nowMs, RETRY_KEYS) === 0) return false
    const error = await read(pass)
    if (error !== undefined) {
      pass.unreadable.push({ table: kind.name, error })
      return false
    }
    const { additions, keys } = planStretch(pass)
    const failed = await run(additions, 'add', pass)
    retriesLeft -= keys - additions.length + failed
    if (retriesLeft <= 0) retryAtMs = pass.nowMs + RETRY_PAUSE_MS
    await pass.budget.turn()
    return true
  }

  /** Plans one stretch. `keys`: how many keys were due; `isFull`: more may be due. */
  function planStretch(pass: Pass): {
    readonly additions: Step<Item, Op>[]
    readonly keys: number
    readonly isFull: boolean
  } {
    const { budget } = pass
    const additions: Step<Item, Op>[] = []
    budget.begin()
    for (let keys = 0; ; keys++) {
      // One after the other: a single key may need more operations than a stretch has.
      const key = sync.takeDue()
      if (key === undefined) return { additions, keys, isFull: false }
      budget.use(Math.max(1, planKey(key, pass, additions)))
      if (!atOnce && budget.spent()) return { additions, keys: keys + 1, isFull: true }
    }
  }

  /**
   * Plans one key: its additions go to `additions`, its removals are left to `remove`. Returns the
   * number of operations.
   */
  function planKey(key: string, pass: Pass, additions: Step<Item, Op>[]): number {
    removals.delete(key)
    if (sync.mustWait(key)) return 0
    const step = sync.plan(key, pass.options.mayRemove, pass.options.idle?.get(key))
    if (step === undefined) {
      const times = sync.leave(key, pass.nowMs)
      const ops = times === undefined ? [] : kind.diff(key, sync.desired(key), undefined)
      if (times !== undefined) count({ key, times, commands: ops.map((op) => kind.text(op)) }, pass)
      return 0
    }
    const admission = sync.admit(step, pass.nowMs)
    if (!admission.now) return 0
    count(admission.repair, pass)
    if (atOnce || !step.ops.some(isRemoval)) additions.push(step)
    else {
      const { desired } = step
      const rest = step.ops.filter((op) => !isRemoval(op))
      if (rest.length > 0) additions.push({ key, ops: rest, desired })
      removals.set(key, { key, ops: step.ops.filter(isRemoval), desired })
    }
    return step.ops.length
  }

  function count(repair: Repair | undefined, pass: Pass): void {
    if (repair === undefined) return
    counts.repaired++
    if (repair.times >= CONTESTED_REPAIRS) counts.contested++
    pass.repairs.push({ ...repair, table: kind.name })
  }

  return {
    name: kind.name,
    counts,
    async read(pass) {
      removals.clear()
      retriesLeft = RETRY_KEYS
      if (atOnce) sync.takeRetries(pass.nowMs, Number.POSITIVE_INFINITY)
      return read(pass)
    },
    async add(pass) {
      const { additions, keys, isFull } = planStretch(pass)
      await run(additions, atOnce ? undefined : 'add', pass)
      if (isFull) await pass.budget.turn()
      return keys > 0 || retry(pass)
    },
    async remove(pass) {
      const steps = Array.from(removals.values())
        .filter((step) => sync.mayRemove(step))
        .toReversed()
      removals.clear()
      const { budget } = pass
      budget.begin()
      let stretch: Step<Item, Op>[] = []
      for (const step of steps) {
        stretch.push(step)
        budget.use(step.ops.length)
        if (!budget.spent()) continue
        await run(stretch, 'remove', pass)
        stretch = []
        await budget.turn()
      }
      await run(stretch, 'remove', pass)
    },
    rows: () => rowsOf(sync),
    allowRemovals: () => sync.allowRemovals(),
    nextDueMs() {
      if (unreadable !== undefined) return unreadable.retryAtMs
      const next = sync.nextDueMs()
      // Dirty keys never wait.
      return next === undefined || next === 0 ? next : Math.max(next, retryAtMs)
    },
  }
}
