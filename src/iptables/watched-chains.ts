/**
 * Chains of other programs where an added rule may take packets before ours. They become known with
 * a reading, so what is announced during one is kept: the reading may have been too early for it.
 */

import type { Clock } from '../values/clock.ts'

/** From the end of a reading to the next, in milliseconds: each is a process, and may take seconds. */
const PERIOD_MS = 1000
/** So many chains are kept during a reading; beyond that the rules are read again in any case. */
const MAX_KEPT = 100

export class WatchedChains {
  #watched: ReadonlySet<string> = new Set()
  /** Chains to which a rule was added during the reading. */
  #added: Set<string> | undefined
  #endedMs = 0
  #isOutdated = false
  readonly #now: Clock

  constructor(now: Clock) {
    this.#now = now
  }

  /** When to read again, because the last reading may have missed a rule; undefined: it did not. */
  nextReadMs(): number | undefined {
    return this.#isOutdated ? this.#endedMs + PERIOD_MS : undefined
  }

  begin(): void {
    this.#added = new Set()
    this.#isOutdated = false
  }

  /** Ends a reading, which found these chains; undefined: it failed. */
  end(found: ReadonlySet<string> | undefined): void {
    const added = this.#added ?? new Set()
    this.#added = undefined
    this.#endedMs = this.#now()
    if (found === undefined) return
    this.#isOutdated = added.size >= MAX_KEPT || Array.from(added).some((key) => found.has(key))
    this.#watched = found
  }

  /** A rule is added to this chain: whether it was known when the last reading ended. */
  has(key: string): boolean {
    if (this.#added !== undefined && this.#added.size < MAX_KEPT) this.#added.add(key)
    return this.#watched.has(key)
  }
}
