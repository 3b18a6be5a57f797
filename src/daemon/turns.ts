/** Long work in the event loop, in portions: the proxy reads announcements and answers probes in between. */
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Longest portion, in milliseconds. */
const PORTION_MS = 4
/** Items of a few microseconds between two looks at the clock. */
const ITEMS = 32

export class Turns {
  #sinceMs = performance.now()
  #asked = 0

  /** Whether the portion has lasted long enough. It is asked for each item, and an item may cost less than reading the clock. */
  get isDue(): boolean {
    return ++this.#asked % ITEMS === 0 && performance.now() - this.#sinceMs >= PORTION_MS
  }

  /** Resolves when others had their turn. */
  async next(): Promise<void> {
    await nextTurn()
    this.#sinceMs = performance.now()
  }
}
