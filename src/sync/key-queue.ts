/** Keys in the order in which they were added, which are taken from the front while others are added. */

export class KeyQueue {
  readonly #keys = new Set<string>()
  /**
   * Where `take` continues. A new iterator would step over the places of all keys that were taken
   * before, one by one.
   */
  #cursor = this.#keys.values()

  get size(): number {
    return this.#keys.size
  }

  /** Returns whether the key is new. One that is there keeps its place. */
  add(key: string): boolean {
    return this.#keys.size < this.#keys.add(key).size
  }

  has(key: string): boolean {
    return this.#keys.has(key)
  }

  /** Returns whether the key was there. */
  delete(key: string): boolean {
    return this.#keys.delete(key)
  }

  /** From the front to the end. */
  keys(): IterableIterator<string> {
    return this.#keys.values()
  }

  /** Removes the first key and returns it, without those that stay; undefined when there is none. */
  take(stays: (key: string) => boolean = () => false): string | undefined {
    // To the end, and then once from the beginning: keys that have stayed before are still there.
    for (let rounds = 0; rounds < 2; ) {
      const { done, value: key } = this.#cursor.next()
      if (done === true) {
        this.#cursor = this.#keys.values()
        rounds++
      } else if (!stays(key)) {
        this.#keys.delete(key)
        return key
      }
    }
    return undefined
  }
}
