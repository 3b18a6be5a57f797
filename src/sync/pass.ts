/**
 * One pass over the tables: its options, its results, and its budget.
 * @impure
 */
import type { Budget } from '../values/budget.ts'
import type { Clock } from '../values/clock.ts'
import { newBudget } from '../values/event-loop.ts'
import type { Failure, Repair, TableName } from './table.ts'

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

/** Collects the results of one pass. */
export class Pass implements PassReport {
  readonly options: PassOptions
  /** A stretch is planned and applied together. */
  readonly budget: Budget
  applied = 0
  readonly failures: (Failure & { readonly table: TableName })[] = []
  readonly repairs: (Repair & { readonly table: TableName })[] = []
  readonly unreadable: { readonly table: TableName; readonly error: Error }[] = []

  constructor(options: PassOptions) {
    this.options = options
    this.budget = newBudget(options.now)
  }

  get nowMs(): number {
    return this.options.now()
  }
}
