/**
 * One pass of the reconciler: its results, its time, and when it lets the event loop run.
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
  /** When this turn of the event loop began, on the clock `now`; without it the first look at the clock counts. */
  readonly turnMs?: number
  /** Parts of items that just had no connections, by table and key. */
  readonly idle?: ReadonlyMap<string, ReadonlySet<string>>
}

/** After an exchange with the kernel, a pass that has held the event loop for this long lets it run. */
const TURN_MS = 4

export class Pass {
  readonly options: PassOptions
  #nowMs: number | undefined
  /** When this turn of the event loop began. */
  #turnMs: number | undefined
  applied = 0
  readonly failures: (Failure & { readonly table: TableName })[] = []
  readonly repairs: (Repair & { readonly table: TableName })[] = []
  readonly unreadable: { readonly table: TableName; readonly error: Error }[] = []

  constructor(options: PassOptions) {
    this.options = options
    this.#turnMs = options.turnMs
  }

  /**
   * The time after the last exchange with the kernel, or after the last wait. Most tables have nothing to do in most passes, and some
   * kernels and hypervisors make a system call of each look at the clock.
   */
  get nowMs(): number {
    this.#nowMs ??= this.options.now()
    this.#turnMs ??= this.#nowMs
    return this.#nowMs
  }

  /** To be called after an exchange with the kernel and after a wait. */
  timePassed(): void {
    this.#nowMs = undefined
  }

  /** Lets the event loop run if this pass has held it for long. To be called where the pass may wait. */
  async letOthersRun(): Promise<void> {
    if (this.nowMs - (this.#turnMs ?? this.nowMs) >= TURN_MS) await this.nextTurn()
  }

  /** Lets the event loop run. */
  async nextTurn(): Promise<void> {
    await nextTurn()
    this.#nowMs = undefined
    this.#turnMs = this.nowMs
  }
}
