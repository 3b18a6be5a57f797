/**
 * When to look at a family's rules after an announcement: at once, but at most once in a while, because every look is a
 * process.
 * What could break: an announcement that comes too early must not be lost; it makes the look that is due later.
 */
import type { IpFamily } from '../values/protocol.ts'

/** Shortest time between two looks at one family, in milliseconds. */
const INTERVAL_MS = 1000

export class LookThrottle {
  readonly #intervalMs: number
  readonly #wanted = new Set<IpFamily>()
  readonly #lastMs = new Map<IpFamily, number>()

  constructor(intervalMs = INTERVAL_MS) {
    this.#intervalMs = intervalMs
  }

  /** Somebody may have changed this family's rules. */
  request(family: IpFamily): void {
    this.#wanted.add(family)
  }

  /** Families to be looked at now (`doubt('all')`, then a pass); they count as looked at. */
  takeDue(nowMs: number): readonly IpFamily[] {
    const due = [...this.#wanted].filter((family) => this.#dueMs(family) <= nowMs)
    for (const family of due) {
      this.#wanted.delete(family)
      this.#lastMs.set(family, nowMs)
    }
    return due
  }

  /** When the next family is due, on the same clock; undefined when nothing is wanted. */
  nextDueMs(): number | undefined {
    const times = [...this.#wanted].map((family) => this.#dueMs(family))
    return times.length === 0 ? undefined : Math.min(...times)
  }

  #dueMs(family: IpFamily): number {
    const last = this.#lastMs.get(family)
    return last === undefined ? Number.NEGATIVE_INFINITY : last + this.#intervalMs
  }
}
