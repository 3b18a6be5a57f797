/** Long work in the event loop, in portions: the proxy reads announcements and answers probes in between. */
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Longest portion, in milliseconds. */
const PORTION_MS = 4

export class Turns {
  #sinceMs = performance.now()

  /** Whether the portion has lasted long enough. */
  get isDue(): boolean {
    return performance.now() - this.#sinceMs >= PORTION_MS
  }

  /** Resolves when others had their turn. */
  async next(): Promise<void> {
    await nextTurn()
    this.#sinceMs = performance.now()
  }
}
