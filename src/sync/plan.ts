/**
 * The plan of a pass as data: a row for each item that is wanted, or that is in the kernel and
 * ours. `diff`, `doctor` and `cleanup` print its commands.
 */
import type { Direction, Step, TableKind, TableName } from './table.ts'

/**
 * `extra`: nothing wants the item, so it is removed. `draining`: the item is as it should be, but
 * for parts that are removed once their connections have ended.
 */
export const ROW_STATES = ['missing', 'extra', 'differs', 'present', 'draining'] as const
export type RowState = (typeof ROW_STATES)[number]

/** How many rows have each state. */
export type RowCounts = { readonly [State in RowState]: number }

export function noRows(): { -readonly [State in RowState]: number } {
  return { missing: 0, extra: 0, differs: 0, present: 0, draining: 0 }
}

export interface PlannedOperation {
  readonly direction: Direction
  /** What an operator would type; several lines for some operations on rules. */
  readonly command: string
}

/** A row without what is done about it. */
export interface KeyState {
  readonly table: TableName
  readonly key: string
  readonly state: RowState
}

export interface PlanRow extends KeyState {
  /**
   * In the order of a pass, which runs all additions before the first removal; none for an item
   * that is present or draining.
   */
  readonly operations: readonly PlannedOperation[]
}

/** The part of a kind that rows need. */
export type RowKind<Item, Op> = Pick<TableKind<Item, Op>, 'name' | 'diff' | 'direction' | 'text' | 'isDraining'>

/** The part of a TableSync that its rows need. */
interface Planned<Item, Op> {
  readonly kind: TableKind<Item, Op>
  dirtyKeys(): Iterable<string>
  desiredKeys(): Iterable<string>
  liveKeys(): Iterable<string>
  desired(key: string): Item | undefined
  live(key: string): Item | undefined
  plan(key: string, mayRemove: boolean): Step<Item, Op> | undefined
}

/** All keys that are wanted or live, the dirty ones first. Lazy, because a table may have very many. */
function* keysOf<Item, Op>(sync: Planned<Item, Op>): Generator<string, void, void> {
  const dirty = new Set(sync.dirtyKeys())
  yield* dirty
  for (const key of sync.desiredKeys()) if (!dirty.has(key)) yield key
  for (const key of sync.liveKeys()) if (!dirty.has(key) && sync.desired(key) === undefined) yield key
}

/** The rows of a table that has been read. */
export function* rowsOf<Item, Op>(sync: Planned<Item, Op>): Generator<PlanRow, void, void> {
  for (const key of keysOf(sync)) {
    const ops = sync.plan(key, true)?.ops ?? []
    const row = rowOf(sync.kind, key, sync.desired(key), sync.live(key), ops)
    if (row !== undefined) yield row
  }
}

/** The same rows without their operations: what is missing needs no comparison, and no text is made. */
export function* statesOf<Item, Op>(sync: Planned<Item, Op>): Generator<KeyState, void, void> {
  for (const key of keysOf(sync)) {
    const [desired, live] = [sync.desired(key), sync.live(key)]
    const isMissing = desired !== undefined && live === undefined
    const hasOperations = isMissing || sync.plan(key, true) !== undefined
    const state = stateOf(sync.kind, desired, live, hasOperations)
    if (state !== undefined) yield { table: sync.kind.name, key, state }
  }
}

/**
 * The row of one key; undefined: there is no such item, or it is not ours. @param ops what makes
 * `desired` of `live`
 */
export function rowOf<Item, Op>(
  kind: RowKind<Item, Op>,
  key: string,
  desired: Item | undefined,
  live: Item | undefined,
  ops: readonly Op[] = kind.diff(key, desired, live),
): PlanRow | undefined {
  const state = stateOf(kind, desired, live, ops.length > 0)
  const operations = ops.map((op) => ({ direction: kind.direction(op), command: kind.text(op) }))
  return state && { table: kind.name, key, state, operations }
}

function stateOf<Item, Op>(
  kind: RowKind<Item, Op>,
  desired: Item | undefined,
  live: Item | undefined,
  hasOperations: boolean,
): RowState | undefined {
  if (desired === undefined) return hasOperations ? 'extra' : undefined
  if (live === undefined) return 'missing'
  if (hasOperations) return 'differs'
  return kind.isDraining?.(desired, live) === true ? 'draining' : 'present'
}

/**
 * The commands of rows in the order of a pass: additions from the first row to the last, then
 * removals from the last to the first.
 */
export function commandsOf(rows: readonly PlanRow[]): string[] {
  const commands = (direction: Direction, of: readonly PlanRow[]): string[] =>
    of.flatMap(({ operations }) => operations.flatMap((op) => (op.direction === direction ? op.command : [])))
  return [...commands('add', rows), ...commands('remove', rows.toReversed())]
}
