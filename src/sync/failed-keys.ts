/**
 * Keys whose last operations failed, with numbers of them that cost nothing to ask for: there may be very many, and health is
 * looked at after every pass.
 */
import { CodedError } from '../values/errors.ts'

export interface FailedKey {
  /** How many times in a row. */
  readonly attempts: number
  readonly error: Error
  /** Whether an item is wanted at the key, or none. */
  readonly isWanted: boolean
}

export class FailedKeys {
  readonly #keys = new Map<string, FailedKey>()
  readonly #codes = new Map<string, number>()
  #wanted = 0

  /** Of those where an item is wanted. */
  get wantedCount(): number {
    return this.#wanted
  }

  /** The code of every error that some key has; an error without one does not count. */
  get codes(): Iterable<string> {
    return this.#codes.keys()
  }

  get(key: string): FailedKey | undefined {
    return this.#keys.get(key)
  }

  has(key: string): boolean {
    return this.#keys.has(key)
  }

  set(key: string, failed: FailedKey): void {
    this.delete(key)
    this.#keys.set(key, failed)
    this.#count(failed, 1)
  }

  delete(key: string): void {
    const failed = this.#keys.get(key)
    if (failed === undefined) return
    this.#keys.delete(key)
    this.#count(failed, -1)
  }

  entries(): IterableIterator<[string, FailedKey]> {
    return this.#keys.entries()
  }

  #count({ error, isWanted }: FailedKey, step: 1 | -1): void {
    if (isWanted) this.#wanted += step
    if (!(error instanceof CodedError)) return
    const count = (this.#codes.get(error.code) ?? 0) + step
    if (count === 0) this.#codes.delete(error.code)
    else this.#codes.set(error.code, count)
  }
}
