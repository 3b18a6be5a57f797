/**
 * The keys of a table that need work: dirty ones may differ and are due, unread ones are read
 * first, and delayed ones wait for a retry and are read after it.
 */
import { DelayedKeys } from './delayed-keys.ts'
import { KeyQueue } from './key-queue.ts'

export class PendingKeys {
  readonly #dirty = new KeyQueue()
  readonly #unread = new Set<string>()
  /** They are in neither of the sets above. */
  readonly #delayed = new DelayedKeys()

  /** A key that waits for a retry keeps waiting. */
  mark(key: string): void {
    if (!this.#delayed.has(key)) this.#dirty.add(key)
  }

  /** Marks a key as dirty that has another desired item: it does not wait any more. */
  want(key: string): void {
    this.#dirty.add(key)
    this.retry(key)
  }

  /** Ends the wait of a key; returns whether it waited. */
  retry(key: string): boolean {
    const hasWaited = this.#delayed.delete(key)
    if (hasWaited) this.#unread.add(key)
    return hasWaited
  }

  /** Ends the wait of up to `limit` keys that are due for a retry, and returns how many. */
  takeRetries(nowMs: number, limit: number): number {
    const due = this.#delayed.takeDue(nowMs, limit)
    for (const key of due) this.#unread.add(key)
    return due.length
  }

  delay(key: string, nowMs: number, waitMs: number): void {
    this.#dirty.delete(key)
    this.#unread.delete(key)
    this.#delayed.add(key, nowMs, waitMs)
  }

  isDelayed(key: string): boolean {
    return this.#delayed.has(key)
  }

  has(key: string): boolean {
    return this.#dirty.has(key) || this.#unread.has(key) || this.#delayed.has(key)
  }

  /** The key is not known any more. One that waits for a retry is read after it. */
  doubt(key: string): void {
    if (!this.#delayed.has(key)) this.#unread.add(key)
  }

  /** In the order of a pass. */
  dirty(): Iterable<string> {
    return this.#dirty.keys()
  }

  /** The unread keys, which the caller reads. */
  takeUnread(): readonly string[] {
    const keys = Array.from(this.#unread)
    this.#unread.clear()
    return keys
  }

  /** The next dirty key, without those to be read first; it is not dirty any more. Undefined when there is none. */
  takeDue(): string | undefined {
    return this.#dirty.take((key) => this.#unread.has(key))
  }

  /** When something is due: 0 for now, else the end of the next wait; undefined for nothing. */
  nextDueMs(): number | undefined {
    return this.#dirty.size > 0 || this.#unread.size > 0 ? 0 : this.#delayed.nextMs()
  }
}
