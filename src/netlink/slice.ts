/**
 * A period of work that may block the event loop. When it has ended, the event loop runs and the next one starts.
 * @impure
 */

export class Slice {
  readonly #lengthMs: number
  /** The end of the present period (performance.now()). */
  endsAt: number

  constructor(lengthMs: number, startedAt: number) {
    this.#lengthMs = lengthMs
    this.endsAt = startedAt + lengthMs
  }

  /** Lets the event loop run, then starts the next period. */
  async next(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve))
    this.endsAt = performance.now() + this.#lengthMs
  }
}
