/**
 * Reads a kernel table with patience: one that cannot be read now is read again after a while, and
 * passes go on without it.
 * @impure
 */
import { backoffMs } from '../values/backoff.ts'
import { asError } from '../values/errors.ts'
import type { TableCounts } from './table.ts'

/** The wait before a table that could not be read is read again. */
const RETRY_MS = { firstMs: 1000, maxMs: 30_000 }

/** The part of a pass that a reading needs. */
interface ReadingPass {
  readonly options: { readonly signal: AbortSignal }
  readonly nowMs: number
}

/** The part of a table that CarefulRead needs. */
interface Readable {
  readonly counts: Pick<TableCounts, 'unreadable'>
  /** Whether `read` would ask the kernel. */
  readonly isUnread: boolean
  read(signal: AbortSignal): Promise<void>
}

/**
 * Reads a table that may be unreadable for a while: after a failure passes skip it for a time that
 * grows with each failure.
 */
export class CarefulRead {
  readonly #table: Readable
  #failure: { readonly error: Error; readonly tries: number; readonly retryAtMs: number } | undefined

  constructor(table: Readable) {
    this.#table = table
  }

  /** Resolves to the reason why the table cannot be read; undefined when it was read. Rejects when aborted. */
  async read(pass: ReadingPass): Promise<Error | undefined> {
    if (this.#failure !== undefined && pass.nowMs < this.#failure.retryAtMs) return this.#failure.error
    if (!this.#table.isUnread) {
      this.#failure = undefined
      return undefined
    }
    try {
      await this.#table.read(pass.options.signal)
      this.#failure = undefined
    } catch (thrown) {
      pass.options.signal.throwIfAborted()
      this.#table.counts.unreadable++
      const error = asError(thrown)
      const tries = (this.#failure?.tries ?? 0) + 1
      this.#failure = { error, tries, retryAtMs: pass.nowMs + backoffMs(RETRY_MS, tries) }
    }
    return this.#failure?.error
  }

  /** When the table is read again, in milliseconds of the clock of the pass; undefined while it is readable. */
  get retryAtMs(): number | undefined {
    return this.#failure?.retryAtMs
  }
}
