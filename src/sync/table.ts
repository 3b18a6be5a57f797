/**
 * The contract of every kernel table, and the values that the loop makes around it. A table is a
 * kind, which is pure, and an io: the kernel, or a map in tests. `step` must agree with the kernel
 * and with `diff`: stepping through diff(b, a) from a gives b, up to draining; a test holds every
 * kind to it.
 */

/** `virtual-servers`, `chains-IPv4`: names a table in rows, metrics and lines of the log. */
export type TableName = string

/** Whether an operation adds (or changes) something or removes it; decides when in a plan it runs. */
export type Direction = 'add' | 'remove'

/** What the items and operations of a table are. Pure: it knows no kernel. */
export interface TableKind<Item, Op> {
  readonly name: TableName
  /** The key of the item that an operation changes. */
  key(op: Op): string
  /** Operations that turn `live` into `desired`, in a safe order. `idle` names parts that had no connections. */
  diff(key: string, desired: Item | undefined, live: Item | undefined, idle?: ReadonlySet<string>): readonly Op[]
  /** Whether two items are the same in every part that is written or read. */
  equal(a: Item, b: Item): boolean
  /** What one successful operation makes of a live item. */
  step(live: Item | undefined, op: Op): Item | undefined
  /** The same of several operations, one after the other, for a table on whose items there may be thousands. */
  stepAll?(live: Item | undefined, ops: readonly Op[]): Item | undefined
  direction(op: Op): Direction
  /**
   * Whether these removals of one key may run although another operation of that key failed: the
   * rest of `live` works without what they remove. A kind without this function never allows it,
   * because the failed operation may have been the replacement.
   */
  canSpare?(live: Item | undefined, removals: readonly Op[]): boolean
  /** Whether parts of `live` stay only until their connections end. Absent: never. */
  isDraining?(desired: Item, live: Item): boolean
  /** The operation as the command an operator would type. */
  text(op: Op): string
}

/** Where the items of a kind are. */
export interface TableIo<Item, Op> {
  readonly kind: TableKind<Item, Op>
  /** Live items of these keys, without keys that have none, or all of them. Rejects when the kernel cannot be read. */
  list(keys: readonly string[] | 'all', signal: AbortSignal): Promise<Map<string, Item>>
  /**
   * Runs the operations in order. Resolves to one outcome for each: undefined for success, else the
   * reason. Rejects only when aborted.
   */
  apply(ops: readonly Op[], signal: AbortSignal): Promise<readonly (Error | undefined)[]>
  /** Whether a pass may remove this live item that nothing wants. Absent: all that is listed is ours. */
  isOurs?(key: string, live: Item): boolean
}

/** The operations that one key needs. */
export interface Step<Item, Op> {
  readonly key: string
  readonly ops: readonly Op[]
  /** The wanted item when the step was planned; undefined: none. */
  readonly desired: Item | undefined
  /** The live item after all operations; undefined when it must be computed operation by operation. */
  readonly result?: Item
}

/** Of the operations of a batch, in their order; undefined: it succeeded. */
export type Outcomes = readonly (Error | undefined)[]

/** Whether `count` operations of a batch, from index `from`, have all succeeded. */
export function allDone(outcomes: Outcomes, from: number, count: number): boolean {
  for (let index = from; index < from + count; index++) if (outcomes[index] !== undefined) return false
  return true
}

/** The item after these operations. */
export function stepAll<Item, Op>(
  kind: TableKind<Item, Op>,
  live: Item | undefined,
  ops: readonly Op[],
): Item | undefined {
  if (kind.stepAll !== undefined) return kind.stepAll(live, ops)
  return ops.reduce((item: Item | undefined, op) => kind.step(item, op), live)
}

/** A failed operation, for a log line. */
export interface Failure {
  readonly key: string
  readonly command: string
  readonly error: Error
  /** How many times in a row this key has failed, from 1. */
  readonly attempts: number
  readonly retryAtMs: number
}

/**
 * A key that another program had changed and that was set right. `times` counts the repairs up to
 * this one, each at most a minute after the one before.
 */
export interface Repair {
  readonly key: string
  readonly commands: readonly string[]
  readonly times: number
}

/** What happened to a table since the start, as numbers that only grow. Metrics read them at a scrape. */
export interface TableCounts {
  /** Successful operations, by direction: `added` includes changes. */
  added: number
  removed: number
  addFailed: number
  removeFailed: number
  /** Keys that another program had changed. */
  repaired: number
  /** Those of them that another program keeps changing: repairs from the third one on. */
  contested: number
  /** Failed attempts to read the table. */
  unreadable: number
}

export function noCounts(): TableCounts {
  return { added: 0, removed: 0, addFailed: 0, removeFailed: 0, repaired: 0, contested: 0, unreadable: 0 }
}

/** What else decides about the keys of a TableSync. */
export interface TableSyncOptions<Item> {
  /** Called for every key that was written or found to need nothing; other state may depend on the key. */
  readonly onExamined?: (key: string) => void
  /** Whether a missing item may be added now; if not, the key waits for `release`. */
  readonly mayAdd?: (key: string, item: Item) => boolean
  /** Whether an item that nothing wants may be removed now; if not, the key waits for `touch`. */
  readonly mayRemove?: (key: string) => boolean
}
