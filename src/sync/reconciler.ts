/**
 * The loop every command runs: read what is not known, diff, apply in a safe order, take the outcome in.
 * What could break: the order. Tables are given in the order in which things may come (device, virtual servers,
 * addresses); what goes, goes the other way round, after everything that comes.
 * @impure
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { backoffMs } from '../values/backoff.ts'
import type { Clock } from '../values/clock.ts'
import { asError } from '../values/errors.ts'
import type { TableSync } from './table-sync.ts'
import type { Direction, Failure, KernelTable, Repair, Step, TableCounts, TableName } from './table.ts'

/** What a pass did, or would do. */
export interface PassReport {
  /** Operations that were applied with success. */
  readonly applied: number
  readonly failures: readonly (Failure & { readonly table: TableName })[]
  readonly repairs: readonly (Repair & { readonly table: TableName })[]
  /** Tables that could not be read; their keys wait. */
  readonly unreadable: readonly { readonly table: TableName; readonly error: Error }[]
}

export interface PassOptions {
  readonly signal: AbortSignal
  readonly now: Clock
  /** False while some source has not listed yet: nothing that is there is taken away as unwanted. */
  readonly mayRemove: boolean
  /** Parts of items that were just seen without connections, by table and key. */
  readonly idle?: ReadonlyMap<string, ReadonlySet<string>>
}

/**
 * What is planned and applied together ends with the first of these: it bounds memory and the time between two turns of
 * the event loop.
 */
const SLICE_KEYS = 200
const SLICE_OPS = 300
/** Keys that are taken at once until a slice is full. */
const CHUNK_KEYS = 25
/**
 * Keys that failed before are tried again after all others, this many at once. When so many have not worked again, the rest
 * waits for RETRY_PAUSE_MS at least: the kernel may refuse very many, and every change waits for the pass that tries them.
 */
const RETRY_KEYS = 16
const RETRY_PAUSE_MS = 250

/** A table and the state kept for it, whatever its item and operation types. */
export interface Reconciled {
  readonly name: TableName
  readonly counts: TableCounts
  /**
   * Reads what is not known. Resolves to why the table cannot be read now: then it is tried again only after a while, and
   * its keys wait. Rejects when aborted.
   */
  read(nowMs: number, signal: AbortSignal): Promise<Error | undefined>
  /** Plans a slice of the due keys and runs what comes; what goes is kept for `remove`. False when nothing was due. */
  bring(pass: Pass): Promise<boolean>
  remove(pass: Pass): Promise<void>
  /** The plan as commands, without running anything. Call after `read`. */
  preview(mayRemove: boolean): { readonly coming: readonly string[]; readonly going: readonly string[] }
  allowRemovals(): void
  /** When something is due: the next try of a table that could not be read, else the first of its keys. */
  nextDueMs(): number | undefined
}

/** Collects what happens during one pass. */
class Pass {
  readonly options: PassOptions
  applied = 0
  readonly failures: (Failure & { readonly table: TableName })[] = []
  readonly repairs: (Repair & { readonly table: TableName })[] = []
  readonly unreadable: { readonly table: TableName; readonly error: Error }[] = []

  constructor(options: PassOptions) {
    this.options = options
  }
}

/** Steps in slices as long as those that are planned. */
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
   * All that is due is one call of the table, whatever comes and goes: for a table that makes its changes at once and puts
   * them into a safe order itself.
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
  const { table, counts }: { table: KernelTable<Item, Op>; counts: TableCounts } = sync
  const isGoing = (op: Op): boolean => table.direction(op) === 'remove'
  const directionOf = (step: Step<Item, Op>): Direction => (step.ops.some(isGoing) ? 'remove' : 'add')
  /** What goes, by key: a key that is planned again in the same pass is wanted otherwise by then. */
  const going = new Map<string, Step<Item, Op>>()
  const reading = new CarefulRead(sync)
  /** How many keys may fail again before this pass tries no more of them. */
  let retriesLeft = RETRY_KEYS
  /** No key is tried again before this time. */
  let retryAtMs = Number.NEGATIVE_INFINITY

  /** Returns how many steps did not work. */
  async function run(steps: readonly Step<Item, Op>[], direction: Direction | undefined, pass: Pass): Promise<number> {
    if (steps.length === 0) return 0
    const outcomes = await table.apply(
      steps.flatMap((step) => step.ops),
      pass.options.signal,
    )
    const nowMs = pass.options.now()
    let next = 0
    let failed = 0
    for (const step of steps) {
      const count = step.ops.length
      const failures = sync.settle(step, outcomes, next, nowMs)
      if (failures.length > 0) failed++
      next += count
      countOperations(counts, direction ?? directionOf(step), count, failures.length)
      pass.applied += count - failures.length
      for (const failure of failures) pass.failures.push({ ...failure, table: table.name })
    }
    return failed
  }

  /** Tries a slice of the keys again that failed before; false when none may be tried now. */
  async function retry(pass: Pass): Promise<boolean> {
    const { now, signal } = pass.options
    if (atOnce || retriesLeft <= 0 || now() < retryAtMs) return false
    if (sync.takeRetries(now(), RETRY_KEYS) === 0) return false
    const error = await reading.read(now(), signal)
    if (error !== undefined) {
      pass.unreadable.push({ table: table.name, error })
      return false
    }
    const { coming, keys } = planSlice(pass)
    const failed = await run(coming, 'add', pass)
    retriesLeft -= keys - coming.length + failed
    if (retriesLeft <= 0) retryAtMs = now() + RETRY_PAUSE_MS
    await nextTurn()
    return true
  }

  /** Plans one slice. `keys` 0: nothing was due; `isFull`: there may be more. */
  function planSlice(pass: Pass): {
    readonly coming: Step<Item, Op>[]
    readonly keys: number
    readonly isFull: boolean
  } {
    const nowMs = pass.options.now()
    const coming: Step<Item, Op>[] = []
    let keys = 0
    let ops = 0
    while (atOnce || (keys < SLICE_KEYS && ops < SLICE_OPS)) {
      const due = sync.takeDue(CHUNK_KEYS)
      if (due.length === 0) return { coming, keys, isFull: false }
      keys += due.length
      for (const key of due) ops += planKey(key, nowMs, pass, coming)
    }
    return { coming, keys, isFull: true }
  }

  /** Puts what is to be done to one key where it belongs; returns how many operations that is. */
  function planKey(key: string, nowMs: number, pass: Pass, coming: Step<Item, Op>[]): number {
    going.delete(key)
    if (sync.mustWait(key)) return 0
    const step = sync.plan(key, pass.options.mayRemove, pass.options.idle?.get(key))
    if (step === undefined) {
      sync.leave(key)
      return 0
    }
    const admission = sync.admit(step, nowMs)
    if (!admission.now) return 0
    if (admission.repair !== undefined) {
      counts.repaired++
      pass.repairs.push({ ...admission.repair, table: table.name })
    }
    if (atOnce || !step.ops.some(isGoing)) coming.push(step)
    else {
      const { desired } = step
      const rest = step.ops.filter((op) => !isGoing(op))
      if (rest.length > 0) coming.push({ key, ops: rest, desired })
      going.set(key, { key, ops: step.ops.filter(isGoing), desired })
    }
    return step.ops.length
  }

  return {
    name: table.name,
    counts,
    async read(nowMs, signal) {
      going.clear()
      retriesLeft = RETRY_KEYS
      if (atOnce) sync.takeRetries(nowMs, Number.POSITIVE_INFINITY)
      return reading.read(nowMs, signal)
    },
    async bring(pass) {
      const { coming, keys, isFull } = planSlice(pass)
      await run(coming, atOnce ? undefined : 'add', pass)
      if (isFull) await nextTurn()
      return keys > 0 || retry(pass)
    },
    async remove(pass) {
      const steps = Array.from(going.values())
        .filter((step) => sync.mayRemove(step))
        .toReversed()
      going.clear()
      for (const slice of slicesOf(steps)) {
        await run(slice, 'remove', pass)
        if (slice.at(-1) !== steps.at(-1)) await nextTurn()
      }
    },
    preview(mayRemove) {
      const coming: string[] = []
      const gone: string[][] = []
      for (const key of sync.takeDue(Number.POSITIVE_INFINITY)) {
        const ops = sync.plan(key, mayRemove)?.ops ?? []
        coming.push(...ops.filter((op) => !isGoing(op)).map((op) => table.format(op)))
        gone.push(ops.filter(isGoing).map((op) => table.format(op)))
      }
      return { coming, going: gone.toReversed().flat() }
    },
    allowRemovals: () => sync.allowRemovals(),
    nextDueMs() {
      if (reading.retryAtMs !== undefined) return reading.retryAtMs
      const next = sync.nextDueMs()
      // What may be worked on now is never kept waiting.
      return next === undefined || next === 0 ? next : Math.max(next, retryAtMs)
    },
  }
}

/**
 * A table; or several that go on together, a slice of each in turn, so that what is first in all of them is there first;
 * or what is to be done at this place of each pass.
 */
export type Stage = Reconciled | readonly Reconciled[] | (() => void)

export class Reconciler {
  readonly #tables: readonly Reconciled[]
  readonly #stages: readonly Stage[]
  #mayRemove = false

  /** Tables in the order in which their things may come. */
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
      const error = await table.read(options.now(), options.signal)
      if (error === undefined) readable.add(table)
      else pass.unreadable.push({ table: table.name, error })
    }
    for (const stage of this.#stages) {
      if (typeof stage === 'function') stage()
      else
        await bringTogether(
          [stage].flat().filter((table) => readable.has(table)),
          pass,
        )
    }
    for (const table of this.#tables.toReversed()) if (readable.has(table)) await table.remove(pass)
    return pass
  }

  /** What a pass would do, as commands in the order in which they would run. Rejects when a table cannot be read. */
  async preview(options: Pick<PassOptions, 'signal' | 'mayRemove' | 'now'>): Promise<string[]> {
    this.#allowRemovals(options.mayRemove)
    for (const table of this.#tables) {
      const error = await table.read(options.now(), options.signal)
      if (error !== undefined) throw error
    }
    const plans = this.#tables.map((table) => table.preview(options.mayRemove))
    return [...plans.flatMap((plan) => plan.coming), ...plans.toReversed().flatMap((plan) => plan.going)]
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

async function bringTogether(tables: readonly Reconciled[], pass: Pass): Promise<void> {
  for (let some = true; some; ) {
    some = false
    for (const table of tables) if (await table.bring(pass)) some = true
  }
}

/** The wait before a table that could not be read is read again. */
const RETRY_MS = { firstMs: 1000, maxMs: 30_000 }

/** A table as far as reading goes. */
export interface Readable {
  readonly counts: Pick<TableCounts, 'unreadable'>
  read(signal: AbortSignal): Promise<void>
}

export class CarefulRead {
  readonly #table: Readable
  #failure: { readonly error: Error; readonly tries: number; readonly retryAtMs: number } | undefined

  constructor(table: Readable) {
    this.#table = table
  }

  /** Resolves to why the table cannot be read; undefined when it was read. Rejects when aborted. */
  async read(nowMs: number, signal: AbortSignal): Promise<Error | undefined> {
    if (this.#failure !== undefined && nowMs < this.#failure.retryAtMs) return this.#failure.error
    try {
      await this.#table.read(signal)
      this.#failure = undefined
    } catch (thrown) {
      signal.throwIfAborted()
      this.#table.counts.unreadable++
      const error = asError(thrown)
      const tries = (this.#failure?.tries ?? 0) + 1
      this.#failure = { error, tries, retryAtMs: nowMs + backoffMs(RETRY_MS, tries) }
    }
    return this.#failure?.error
  }

  /** When the table is read again, in milliseconds of the clock given to `read`; undefined while it is readable. */
  get retryAtMs(): number | undefined {
    return this.#failure?.retryAtMs
  }
}
