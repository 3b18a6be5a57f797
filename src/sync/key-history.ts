/**
 * The recent history of single keys of a table: failed operations, and repairs. There may be very
 * many such keys, and health reads the totals after every pass, so these are counted along and cost
 * nothing to read.
 */
import { backoffMs } from '../values/backoff.ts'
import { CodedError } from '../values/errors.ts'

/** The last failures of one key. */
interface FailedKey {
  /** How many times in a row. */
  readonly attempts: number
  readonly error: Error
  /** Whether an item is wanted at the key. */
  readonly isWanted: boolean
}

/** The wait before a failed key is tried again. */
const RETRY_MS = { firstMs: 500, maxMs: 30_000 }

/** Keys whose last operations failed. */
export class FailedKeys {
  readonly #keys = new Map<string, FailedKey>()
  readonly #codes = new Map<string, number>()
  #wanted = 0

  /** How many of the keys have a wanted item. */
  get wantedCount(): number {
    return this.#wanted
  }

  /** The codes of all errors that some key has; an error without a code does not count. */
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

  /** How many failures in a row one would be now, and the wait after it. */
  attempt(key: string, isRepeated: boolean): { readonly attempts: number; readonly waitMs: number } {
    const attempts = Math.max(1, (this.#keys.get(key)?.attempts ?? 0) + (isRepeated ? 0 : 1))
    return { attempts, waitMs: backoffMs(RETRY_MS, attempts) }
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

/**
 * After this many repairs, each at most WINDOW_MS after the one before, another program keeps
 * writing the key: each further repair waits first. A proxy that syncs once in 30 s gets here too.
 */
export const CONTESTED_REPAIRS = 3
const WINDOW_MS = 60_000
const REPAIR_WAIT_MS = { firstMs: 1000, maxMs: 30_000 }

interface RepairRecord {
  readonly count: number
  readonly lastMs: number
  /** The next repair has already waited. */
  readonly waited: boolean
}

/**
 * How often keys were repaired, each time within a minute of the repair before. A key that another
 * program keeps changing is repaired more and more slowly, so that two programs do not fight at
 * full speed.
 */
export class Repairs {
  /** In the order of their last repair, so that the oldest are forgotten first. */
  readonly #records = new Map<string, RepairRecord>()
  /** Keys that were repaired outside a pass, and not yet counted. */
  readonly #noted = new Set<string>()

  /** A key was repaired outside a pass. */
  note(key: string): void {
    this.#noted.add(key)
  }

  /** The number of its recent repairs, if the key was repaired outside a pass and may be counted. */
  takeNoted(key: string, nowMs: number): number | undefined {
    if (!this.#noted.has(key)) return undefined
    const admitted = this.admit(key, nowMs)
    return 'times' in admitted ? admitted.times : undefined
  }

  /**
   * Asks for a repair of a key. Returns the number of its recent repairs including this one, or how
   * long the key has to wait first, in milliseconds; the next call for the key, which the caller
   * makes after that wait, admits it.
   */
  admit(key: string, nowMs: number): { readonly times: number } | { readonly waitMs: number } {
    this.#forgetOld(nowMs)
    this.#noted.delete(key)
    const { count, lastMs, waited } = this.#records.get(key) ?? { count: 0, lastMs: nowMs, waited: false }
    if (count >= CONTESTED_REPAIRS && !waited) {
      this.#records.set(key, { count, lastMs, waited: true })
      return { waitMs: backoffMs(REPAIR_WAIT_MS, count - CONTESTED_REPAIRS + 1) }
    }
    // Deleted first, because a Map keeps the position of a key that it has.
    this.#records.delete(key)
    this.#records.set(key, { count: count + 1, lastMs: nowMs, waited: false })
    return { times: count + 1 }
  }

  /** How many keys are remembered: those repaired within the last minute. */
  get size(): number {
    return this.#records.size
  }

  #forgetOld(nowMs: number): void {
    for (const [key, { lastMs }] of this.#records) {
      if (nowMs - lastMs <= WINDOW_MS) break
      this.#records.delete(key)
    }
  }
}
