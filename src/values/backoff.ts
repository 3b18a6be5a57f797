/**
 * The wait before the next attempt: the first wait doubled after each failure in a row, up to a
 * longest one. Six places wait this way, and they differ only in the two limits and in jitter.
 */
export interface BackoffLimits {
  /** Wait after the first failure, in milliseconds. */
  readonly firstMs: number
  /** Longest wait in milliseconds, without jitter. */
  readonly maxMs: number
}

/** The wait in milliseconds after `failures` failures in a row, counted from 1, without jitter. */
export function backoffMs({ firstMs, maxMs }: BackoffLimits, failures: number): number {
  return Math.min(firstMs * 2 ** (failures - 1), maxMs)
}

/** A backoff that counts the failures itself. */
export class Backoff {
  readonly #limits: BackoffLimits
  readonly #random: () => number
  #failures = 0

  /**
   * `random` returns a number from 0 to 1, 1 excluded, and makes each wait up to twice as long, the
   * longest too: without that, thousands of nodes would ask in the rhythm of their first failure
   * for as long as an outage lasts. Default: no jitter.
   */
  constructor(limits: BackoffLimits, random = (): number => 0) {
    this.#limits = limits
    this.#random = random
  }

  /** Counts a failure and returns the wait after it in milliseconds. */
  next(): number {
    const plainMs = backoffMs(this.#limits, ++this.#failures)
    return Math.round(plainMs * (1 + this.#random()))
  }

  /** Makes the next wait the first one again. Call it after a period without failures, not after a single success. */
  reset(): void {
    this.#failures = 0
  }
}
