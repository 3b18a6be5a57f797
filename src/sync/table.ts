/**
 * The contract that every kernel table keeps (read, diff, step, apply), and the values that the loop makes around it. The reconciler
 * only runs that loop. `step` must agree with the kernel and with `diff`: stepping through diff(b, a) from a gives b, up to
 * draining; a test holds every table to it.
 */

export type TableName =
  | 'sets'
  | 'set-entries'
  | 'chains-IPv4'
  | 'chains-IPv6'
  | 'device'
  | 'addresses'
  | 'virtual-servers'

/** Whether an operation brings something or takes something away; decides when in a plan it runs. */
export type Direction = 'add' | 'remove'

export interface KernelTable<Item, Op> {
  readonly name: TableName
  /** Live items of these keys (absent ones are left out), or of the whole table. Rejects when the kernel cannot be read. */
  read(keys: readonly string[] | 'all', signal: AbortSignal): Promise<Map<string, Item>>
  /** Operations that turn `live` into `desired`, in a safe order. Pure. `idle` names parts that were seen to be without connections. */
  diff(key: string, desired: Item | undefined, live: Item | undefined, idle?: ReadonlySet<string>): readonly Op[]
  /** Whether two items are the same in every part that is written or read. Pure. */
  equal(a: Item, b: Item): boolean
  /** What one successful operation makes of a live item. Pure. */
  step(live: Item | undefined, op: Op): Item | undefined
  direction(op: Op): Direction
  /** Runs the operations in order; one outcome each, in the same order: undefined for success, else the reason. Rejects only when aborted. */
  apply(ops: readonly Op[], signal: AbortSignal): Promise<readonly (Error | undefined)[]>
  /** Whether a pass may remove this live item that nothing wants. */
  isOurs(key: string, live: Item): boolean
  /**
   * Whether these removals of one key may run although something else of that key failed: what is left of `live` does its
   * work without them. Absent: never, because the failure may have been their replacement. Pure.
   */
  canSpare?(live: Item | undefined, removals: readonly Op[]): boolean
  /** The operation as the command an operator would type. */
  format(op: Op): string
}

/** What has to be done to one key. */
export interface Step<Item, Op> {
  readonly key: string
  readonly ops: readonly Op[]
  /** What was wanted when it was planned; undefined: nothing. */
  readonly desired: Item | undefined
  /** What all of it together makes of the live item; undefined where that has to be followed operation by operation. */
  readonly result?: Item
}

/** Whether these operations of a batch have all worked: `count` of them, from `from` on. */
export function allDone(outcomes: readonly (Error | undefined)[], from: number, count: number): boolean {
  for (let index = from; index < from + count; index++) if (outcomes[index] !== undefined) return false
  return true
}

/** An operation that did not work, for a log line. */
export interface Failure {
  readonly key: string
  readonly command: string
  readonly error: Error
  /** How many times in a row this key has failed, from 1. */
  readonly attempts: number
  readonly retryAtMs: number
}

/** Something that was changed by somebody else and put right. `times` counts the last minute. */
export interface Repair {
  readonly key: string
  readonly commands: readonly string[]
  readonly times: number
}

export interface TableCounts {
  /** Operations that brought or changed something, and those that took something away. */
  added: number
  removed: number
  addFailed: number
  removeFailed: number
  /** Keys that somebody else had changed. */
  repaired: number
  /** Times that the table could not be read. */
  unreadable: number
}

export function noCounts(): TableCounts {
  return { added: 0, removed: 0, addFailed: 0, removeFailed: 0, repaired: 0, unreadable: 0 }
}
