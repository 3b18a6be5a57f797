/**
 * How long to wait before the next try: doubling from 0.8 s to 30 s, with jitter, as client-go's reflector does.
 * What could break: it starts anew only when its owner says that things went well for a while; one good event is not health,
 * or a server that answers and fails at once would be asked without a pause.
 */
export interface BackoffOptions {
  /** First delay in milliseconds; default 800. */
  readonly firstMs?: number
  /** Longest delay in milliseconds, jitter included; default 30,000. */
  readonly maxMs?: number
  /** A number from 0 to 1, 1 excluded. */
  readonly random: () => number
}

export class Backoff {
  readonly #firstMs: number
  readonly #maxMs: number
  readonly #random: () => number
  #failures = 0

  constructor(options: BackoffOptions) {
    this.#firstMs = options.firstMs ?? 800
    this.#maxMs = options.maxMs ?? 30_000
    this.#random = options.random
  }

  /** The delay before the next try: from the plain step to twice of it, never more than the longest. */
  next(): number {
    const step = Math.min(this.#firstMs * 2 ** Math.min(this.#failures, 30), this.#maxMs)
    this.#failures++
    return Math.min(Math.round(step * (1 + this.#random())), this.#maxMs)
  }

  /** The next delay is the first one again. */
  reset(): void {
    this.#failures = 0
  }
}
