/**
 * Which owners (Services) are dirty, and in which order they get work: in the order in which they became dirty, or from both ends
 * of it. From both ends a single change does not wait behind a burst that came before it, and newer changes never starve the oldest.
 */

/** Places are compacted when there are at least this many, and half of them, or as many as there are owners, are unused. */
const MANY_PLACES = 64
/** Each fourth owner is the oldest and the others are the newest, because newer changes of a burst come while a single one waits. */
const OLDEST_TURN = 4

export class DirtyOwners {
  /** The place of each owner. */
  readonly #owners = new Map<string, number>()
  /** In the order in which owners became dirty. A place is unused when its owner has another one, or none. */
  #places: string[] = []
  /** All places before this one are unused. */
  #first = 0
  /** Unused places that were stepped over since all places were in use. */
  #skipped = 0
  /** Which turn is next from both ends, 1 to OLDEST_TURN. */
  #turn = 1

  get size(): number {
    return this.#owners.size
  }

  /** An owner that is dirty already keeps its place. */
  add(owner: string): void {
    if (this.#owners.has(owner)) return
    this.#owners.set(owner, this.#places.length)
    this.#places.push(owner)
  }

  has(owner: string): boolean {
    return this.#owners.has(owner)
  }

  delete(owner: string): void {
    this.#owners.delete(owner)
  }

  /** The owners in the order in which they became dirty, without those that wait. The one that was given last may be deleted meanwhile. */
  *inOrder(waits: (owner: string) => boolean): Generator<string, void, undefined> {
    this.#tidy()
    for (const owner of this.#owners.keys()) if (!waits(owner)) yield owner
  }

  /**
   * Three owners that became dirty last, then the one that did first, and so on from call to call, without those that wait. As above, and
   * nothing may be added meanwhile.
   */
  *fromBothEnds(waits: (owner: string) => boolean): Generator<string, void, undefined> {
    this.#tidy()
    let [first, last] = [this.#first, this.#places.length - 1]
    while (first <= last) {
      const isOldest = this.#turn === OLDEST_TURN
      const owner = this.#at(isOldest ? first++ : last--)
      if (owner === undefined) this.#skipped++
      if (owner === undefined || waits(owner)) continue
      yield owner
      // The owner at which the caller stops has not had its turn.
      this.#turn = isOldest ? 1 : this.#turn + 1
    }
  }

  #at(place: number): string | undefined {
    const owner = this.#places[place]
    return owner !== undefined && this.#owners.get(owner) === place ? owner : undefined
  }

  /** Costs little for each owner that was added or deleted since. */
  #tidy(): void {
    const places = this.#places
    while (places.length > this.#first && this.#at(places.length - 1) === undefined) places.pop()
    while (this.#first < places.length && this.#at(this.#first) === undefined) this.#first++
    const isSparse = Math.max(places.length / 2, this.#skipped) >= this.#owners.size && places.length >= MANY_PLACES
    if (this.#first < places.length && !isSparse) return
    this.#places = [...this.#owners.keys()]
    this.#first = 0
    this.#skipped = 0
    for (const [place, owner] of this.#places.entries()) this.#owners.set(owner, place)
  }
}
