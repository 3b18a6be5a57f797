/**
 * Reads a table that may be unreadable for a while: after a failure the next try waits, longer each time, whatever asks
 * for a pass in the meantime.
 */
import type { TableCounts } from './table-counts.ts'
import { backoffMs } from '../values/backoff.ts'
import { asError } from '../values/errors.ts'

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
