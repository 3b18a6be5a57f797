/**
 * How much work on Services one round of the loop does: as much as takes a few milliseconds, because a change that arrives meanwhile waits
 * for the next round.
 */

/** A round has a fixed cost of a few tenths of a millisecond, so shorter ones would take much longer together. */
const TARGET_MS = 1.8
/** The first portion of a burst: how much a unit takes depends on the work and on the kernel, so it is cautious. */
const FIRST = 8
/** Two Services with few endpoints: with one, the fixed cost of rounds would make a burst take much longer. */
const SMALLEST = 4
const LARGEST = 500

export class Portion {
  #units = FIRST

  /** Units of work (see OwnerWork) of the next round, 4 to 500. */
  get units(): number {
    return this.#units
  }

  /** No work is left: what the next burst is like is unknown. */
  end(): void {
    this.#units = Math.min(this.#units, FIRST)
  }

  /** Adapts the portion to the duration of a round that used all of it, its pass included. */
  observe(elapsedMs: number): void {
    const fitting = elapsedMs <= 0 ? LARGEST : Math.floor((this.#units * TARGET_MS) / elapsedMs)
    this.#units = Math.max(SMALLEST, Math.min(LARGEST, fitting, this.#units * 2))
  }
}
