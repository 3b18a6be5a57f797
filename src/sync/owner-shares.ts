/**
 * The share of the loop's time that owners (Services) with much work may have: who has used many units in a round rests for as long as the
 * round took, so that all of them together use at most half of the time.
 */
import type { Budget } from '../values/budget.ts'

/** An owner that uses more units than this in a round rests afterwards. */
export const RESTLESS_UNITS = 100

export class OwnerShares {
  /** Units that owners have used since the last call of `rest`. */
  readonly #used = new Map<string, number>()
  /** Until when an owner gets no work. */
  readonly #resting = new Map<string, number>()

  /** Counts work on an owner, or work that it causes elsewhere. */
  charge(owner: string, units: number): void {
    this.#used.set(owner, (this.#used.get(owner) ?? 0) + units)
  }

  /** Whether the owner gets no work in this round. */
  isResting(owner: string, nowMs: number): boolean {
    return this.restsUntilMs(owner) > nowMs
  }

  /** Whether the owner may get more work in this round: it does not rest now, and will not afterwards. */
  mayContinue(owner: string, nowMs: number): boolean {
    return !this.isResting(owner, nowMs) && (this.#used.get(owner) ?? 0) <= RESTLESS_UNITS
  }

  /** 0 for an owner that does not rest. */
  restsUntilMs(owner: string): number {
    return this.#resting.get(owner) ?? 0
  }

  /** The owners that rest, or have rested since the last call of `rest`. */
  resting(): Iterable<readonly [owner: string, untilMs: number]> {
    return this.#resting
  }

  /** A round ends: gives no work until `untilMs` to the owners that have used many units in it. */
  rest(nowMs: number, untilMs: number): void {
    for (const [owner, endMs] of this.#resting) if (endMs <= nowMs) this.#resting.delete(owner)
    for (const [owner, units] of this.#used) if (units > RESTLESS_UNITS) this.#resting.set(owner, untilMs)
    this.#used.clear()
  }
}

/** The work of one round that large owners cause: how much is left of it, and which of them may get more. */
export interface LargeWork {
  readonly budget: Budget
  readonly shares: OwnerShares
}
