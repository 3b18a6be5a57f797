/**
 * Which owners (Services) are dirty, and in which order they get work: in the order in which they
 * became dirty, or from both ends of it. From both ends a single change does not wait behind a
 * burst that came before it, and newer changes never starve the oldest.
 */
import { KeyQueue } from './key-queue.ts'

/**
 * Each fourth owner is the oldest and the others are the newest, because newer changes of a burst
 * come while a single one waits.
 */
const OLDEST_TURN = 4

export class DirtyOwners {
  readonly #owners = new KeyQueue()
  /** The newest is last. Owners that were taken as the oldest are still in it. */
  #stack: string[] = []
  /** Which turn is next from both ends, 1 to OLDEST_TURN. */
  #turn = 1

  get size(): number {
    return this.#owners.size
  }

  /** An owner that is dirty already keeps its place. */
  add(owner: string): void {
    if (!this.#owners.add(owner)) return
    this.#stack.push(owner)
    if (this.#stack.length > 2 * this.#owners.size) this.#stack = [...this.#owners.keys()]
  }

  /** The owners in the order in which they became dirty. */
  keys(): Iterable<string> {
    return this.#owners.keys()
  }

  delete(owner: string): void {
    this.#owners.delete(owner)
  }

  /** Takes the owner that became dirty first; undefined when there is none. */
  takeOldest(): string | undefined {
    return this.#owners.take()
  }

  /** Takes three owners that became dirty last, then the one that did first, and so on from call to call. */
  takeFromBothEnds(): string | undefined {
    if (this.#turn++ === OLDEST_TURN) {
      this.#turn = 1
      return this.takeOldest()
    }
    for (let owner = this.#stack.pop(); owner !== undefined; owner = this.#stack.pop())
      if (this.#owners.delete(owner)) return owner
    return undefined
  }
}
