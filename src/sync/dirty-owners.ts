/**
 * Which owners (Services) need work, and in which order they get it: in the order in which they
 * became dirty, or from both ends of it. From both ends a single change does not wait behind a
 * burst that came before it, and newer changes never starve the oldest. Owners whose work is long
 * are in a queue of their own, so that no other owner waits for them.
 */
import { KeyQueue } from './key-queue.ts'

/**
 * Each fourth owner is the oldest and the others are the newest, because newer changes of a burst
 * come while a single one waits.
 */
const OLDEST_TURN = 4

/** @param Work on one owner */
export class DirtyOwners<Work> {
  readonly #owners = new KeyQueue()
  /** The newest is last. Owners that were taken as the oldest are still in it. */
  #stack: string[] = []
  /** Which turn is next from both ends, 1 to OLDEST_TURN. */
  #turn = 1
  /** Owners whose work is longer than a stretch, with that work, or undefined if it has not begun. */
  readonly #long = new Map<string, Work | undefined>()
  /** Those of them that became dirty while their work was under way. */
  readonly #again = new Set<string>()
  /** Owners whose last work was long. */
  readonly #slow = new Set<string>()

  /** How many there are, without the long ones. */
  get size(): number {
    return this.#owners.size
  }

  /** How many `takeLong` would take. */
  get longSize(): number {
    return this.#long.size
  }

  isLong(owner: string): boolean {
    return this.#long.has(owner)
  }

  /**
   * An owner becomes dirty; one that is keeps its place. Its next work waits for the one under way,
   * and with the long ones if it was long the last time.
   */
  mark(owner: string): void {
    if (this.#long.get(owner) !== undefined) this.#again.add(owner)
    else if (this.#slow.has(owner)) this.#long.set(owner, undefined)
    else this.#add(owner)
  }

  /** Work on an owner begins or goes on: it is the last of the long ones until it is done. */
  begin(owner: string, work: Work): void {
    this.#long.set(owner, work)
  }

  /** The work that has begun is done. @param isSlow the next work waits with the long ones */
  done(owner: string, isSlow: boolean): void {
    this.#long.delete(owner)
    if (isSlow) this.#slow.add(owner)
    else this.#slow.delete(owner)
    if (this.#again.delete(owner)) this.mark(owner)
  }

  #add(owner: string): void {
    if (!this.#owners.add(owner)) return
    this.#stack.push(owner)
    if (this.#stack.length > 2 * this.#owners.size) this.#stack = [...this.#owners.keys()]
  }

  /** The owners in the order in which they became dirty, without the long ones. */
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

  /** Takes a long owner, by default the first, with its work if that has begun; undefined when there is none. */
  takeLong(owner = this.#long.keys().next().value): { readonly owner: string; readonly work?: Work } | undefined {
    if (owner === undefined) return undefined
    const work = this.#long.get(owner)
    this.#long.delete(owner)
    return work === undefined ? { owner } : { owner, work }
  }
}
