/**
 * How often keys of a table were repaired of late. A key that somebody else keeps changing is repaired more and more
 * slowly, so that two programs do not fight at full speed.
 */
import { backoffMs } from '../values/backoff.ts'

/** A key that was repaired this often within WINDOW_MS is repaired more and more slowly. */
const FREE_REPAIRS = 3
const WINDOW_MS = 60_000
const REPAIR_WAIT_MS = { firstMs: 1000, maxMs: 30_000 }

interface Repaired {
  readonly count: number
  readonly lastMs: number
  /** The next repair has waited for its turn. */
  readonly waited: boolean
}

export class Repairs {
  /** In the order of their last repair, so that the oldest are forgotten first. */
  readonly #records = new Map<string, Repaired>()

  /**
   * A key is to be repaired. Returns how many times it then was of late (from 1), or how long it has to wait first, in
   * milliseconds; the next call for it, which is to come after that wait, admits it.
   */
  admit(key: string, nowMs: number): { readonly times: number } | { readonly waitMs: number } {
    this.#forgetOld(nowMs)
    const { count, lastMs, waited } = this.#records.get(key) ?? { count: 0, lastMs: nowMs, waited: false }
    if (count >= FREE_REPAIRS && !waited) {
      this.#records.set(key, { count, lastMs, waited: true })
      return { waitMs: backoffMs(REPAIR_WAIT_MS, count - FREE_REPAIRS + 1) }
    }
    // Taken out first: a map keeps the place of a key that it has.
    this.#records.delete(key)
    this.#records.set(key, { count: count + 1, lastMs: nowMs, waited: false })
    return { times: count + 1 }
  }

  /** Keys that are remembered: no more than were repaired within the last minute. */
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
