/**
 * What is to be done to one key of a table, and what became of it: values that tables, loop and log share.
 * What could break: nothing here has a life; whoever needs more than one pass keeps it in TableSync.
 */

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
