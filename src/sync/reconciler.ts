/**
 * The loop that every command runs: read what is unknown, diff, apply in a safe order, update the
 * mirror. Tables are listed in creation order (device, virtual servers, addresses). Removals run in
 * the reverse order, after all additions and changes.
 * @impure
 */
import { earliest } from '../values/clock.ts'
import { Pass, type PassOptions, type PassReport } from './pass.ts'
import type { PlanRow } from './plan.ts'
import type { Reconciled } from './reconciled.ts'
import type { TableName } from './table.ts'

export interface PlanOptions extends Pick<PassOptions, 'signal' | 'now'> {
  /** A table that cannot be read is left out. */
  readonly onUnreadable?: (table: TableName, error: Error) => void
}

/**
 * A table; or several tables that are written together, a stretch of each in turn, so that what is
 * first in all of them is written first; or a function to call at this point of each pass.
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
   * What a pass that may remove would find and do, table by table; nothing changes. Rejects when a
   * table cannot be read, unless `onUnreadable` takes note of it.
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
    return earliest(...this.#tables.map((table) => table.nextDueMs()))
  }
}

async function addTogether(tables: readonly Reconciled[], pass: Pass): Promise<void> {
  for (let some = true; some; ) {
    some = false
    for (const table of tables) if (await table.add(pass)) some = true
  }
}
