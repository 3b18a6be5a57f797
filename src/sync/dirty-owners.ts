/**
 * Which owners (Services) are dirty, and in which order they get work: in the order in which they became dirty, or by turns from both ends
 * of it. From both ends a single change does not wait behind a burst that came before it, and nothing waits for all that comes later.
 */

/** Places that are not used any more are removed when there are so many places, and twice as many as owners. */
const MANY_PLACES = 64

export class DirtyOwners {
  /** The place of each owner. */
  readonly #owners = new Map<string, number>()
  /** In the order in which owners became dirty. A place is unused when its owner has another one, or none. */
  #places: string[] = []

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

  /** The owners in the order in which they became dirty. The one that was given last may be deleted meanwhile. */
  inOrder(): IterableIterator<string> {
    return this.#owners.keys()
  }

  /** By turns the owner that became dirty last and the one that did first. As above, and nothing may be added meanwhile. */
  *fromBothEnds(): Generator<string, void, undefined> {
    this.#tidy()
    const places = this.#places
    for (let first = 0, last = places.length - 1; first <= last; first++, last--) {
      const newest = this.#at(last)
      if (newest !== undefined) yield newest
      const oldest = first < last ? this.#at(first) : undefined
      if (oldest !== undefined) yield oldest
    }
  }

  #at(place: number): string | undefined {
    const owner = this.#places[place]
    return owner !== undefined && this.#owners.get(owner) === place ? owner : undefined
  }

  /** Costs little for each owner that was added since. */
  #tidy(): void {
    while (this.#places.length > 0 && this.#at(this.#places.length - 1) === undefined) this.#places.pop()
    if (this.#places.length < MANY_PLACES || this.#places.length < 2 * this.#owners.size) return
    this.#places = [...this.#owners.keys()]
    for (const [place, owner] of this.#places.entries()) this.#owners.set(owner, place)
  }
}
