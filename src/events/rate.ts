/**
 * A token bucket: so many at once, and then one for each interval. Times are on the clock of the
 * caller, in milliseconds.
 */
export class Rate {
  readonly #intervalMs: number
  readonly #burst: number
  /** When the bucket is full again. */
  #fullMs = 0

  /** @param intervalMs 0: no limit */
  constructor(intervalMs: number, burst: number) {
    this.#intervalMs = intervalMs
    this.#burst = Math.max(burst, 1)
  }

  /** Earliest time of the next one. */
  get nextMs(): number {
    return this.#fullMs - (this.#burst - 1) * this.#intervalMs
  }

  take(nowMs: number): void {
    this.#fullMs = Math.max(this.#fullMs, nowMs) + this.#intervalMs
  }
}
