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
  #nextReadMs: number | undefined
  readonly #now: Clock

  constructor(now: Clock) {
    this.#now = now
  }

  /** When to read again, because a reading may have missed a rule; undefined: none did. */
  nextReadMs(): number | undefined {
    return this.#nextReadMs
  }

  begin(): void {
    this.#added = new Set()
  }

  /**
   * Ends a reading, which found these chains; undefined: it failed. Only one whose caller learned of
   * everything makes up for what an earlier one may have missed.
   */
  end(found: ReadonlySet<string> | undefined, isWhole: boolean): void {
    const added = this.#added ?? new Set()
    this.#added = undefined
    if (found === undefined) return
    this.#watched = found
    if (isWhole) this.#nextReadMs = undefined
    const isEarly = added.size >= MAX_KEPT || Array.from(added).some((key) => found.has(key))
    if (isEarly) this.#nextReadMs ??= this.#now() + PERIOD_MS
  }

  /** A rule is added to this chain: whether it was known when the last reading ended. */
  has(key: string): boolean {
    if (this.#added !== undefined && this.#added.size < MAX_KEPT) this.#added.add(key)
    return this.#watched.has(key)
  }
}
