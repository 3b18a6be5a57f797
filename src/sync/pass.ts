/**
 * One pass of the reconciler: its results and its time.
 * @impure
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../values/clock.ts'
import type { Failure, Repair, TableName } from './table.ts'

export interface PassOptions {
  readonly signal: AbortSignal
  readonly now: Clock
  /** False while some source has not listed yet; until then items that nothing wants are kept. */
  readonly mayRemove: boolean
  /** Parts of items that just had no connections, by table and key. */
  readonly idle?: ReadonlyMap<string, ReadonlySet<string>>
}

export class Pass {
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

  /** Lets the event loop run. */
  async nextTurn(): Promise<void> {
    await nextTurn()
    this.#nowMs = undefined
  }
}
