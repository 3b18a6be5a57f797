/**
 * How much work a computation does before it gives way to others. Work is counted in units of about 10 µs and not read from a clock, because a
 * look at the clock takes as long as a unit on some machines. A computation is a generator: it yields where its budget is spent.
 */
export class Budget {
  #limit: number
  #used = 0

  /** @param units of the first turn; default: the computation never gives way */
  constructor(units: number = Number.POSITIVE_INFINITY) {
    this.#limit = units
  }

  /** Counts work that was done, also of parts of a unit. */
  use(units: number): void {
    this.#used += units
  }

  /** Whether the computation has to give way now. */
  spent(): boolean {
    return this.#used >= this.#limit
  }

  /** Units that were used in this turn. */
  get used(): number {
    return this.#used
  }

  /** Units that are left in this turn, at least 0. */
  get left(): number {
    return Math.max(0, this.#limit - this.#used)
  }

  /** Begins the next turn. */
  renew(units: number): void {
    this.#limit = units
    this.#used = 0
  }
}

/** A computation that gives way to others: it yields where its budget is spent. */
export type Work<Result> = Generator<undefined, Result, void>

/** Does all of the work at once. */
export function allOf<Result>(work: Work<Result>): Result {
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
  }
}
