/**
 * How much work on Services one round of the loop does: as much as takes a few milliseconds, because a change that arrives meanwhile waits
 * for the next round.
 */
import type { Clock } from '../values/clock.ts'
import type { Budget } from './desired-frontends.ts'

/** A round has a fixed cost of a few tenths of a millisecond, so shorter ones would take much longer together. */
const TARGET_MS = 3
/**
 * A portion ends when computing it has taken this long; the other half is for its pass. While V8 collects the whole heap, it marks for up to 5 ms
 * after each 64 KiB that the program allocates, so that a few Services can take much longer than others did before.
 */
const COMPUTING_MS = TARGET_MS / 2
/** The fixed cost of a round, and a machine that is busy with other work, must not make portions tiny: a burst would take much longer. */
const SMALLEST = 16
const LARGEST = 500

/** Units of work are those of OwnerWork. */
export class Portion implements Budget {
  readonly #now: Clock
  #units = 64
  #used = 0
  #endMs = 0

  constructor(now: Clock) {
    this.#now = now
  }

  /** Units of work of the next portion, 16 to 500. */
  get units(): number {
    return this.#units
  }

  /** A round begins. */
  begin(startedMs: number): void {
    this.#used = 0
    this.#endMs = startedMs + COMPUTING_MS
  }

  get isUsedUp(): boolean {
    return this.#used >= this.#units || this.isLate
  }

  /** Whether computing has taken as long as it may. */
  get isLate(): boolean {
    return this.#now() >= this.#endMs
  }

  use(units: number): void {
    this.#used += units
  }

  /** Adapts the next portion to the duration of the round that this one was in, its pass included. */
  observe(elapsedMs: number): void {
    const fitting = elapsedMs <= 0 ? LARGEST : Math.floor((this.#used * TARGET_MS) / elapsedMs)
    this.#units = Math.max(SMALLEST, Math.min(LARGEST, fitting, this.#units * 2))
  }
}
