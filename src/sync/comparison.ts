/**
 * The comparison of a kernel's list with the mirror of a table, item by item while the list arrives. It keeps no listed item: in a large table
 * they would live long enough to become old objects of the heap, and each audit would make V8 collect the whole heap.
 * @impure
 */
import { setImmediate as nextTurn } from 'node:timers/promises'

/** The mirror that an audit compares with. Two keys never have the same object as their item. */
export interface AuditedMirror<Item> {
  live(key: string): Item | undefined
  liveKeys(): Iterable<string>
  doubt(keys: readonly string[]): void
}

/** Keys of the mirror that are looked at between two turns of the event loop: less than a millisecond. */
const KEYS_PER_TURN = 2000

export class Comparison<Item extends object, Listed = Item> {
  readonly #mirror: AuditedMirror<Item>
  readonly #isSame: (live: Item, listed: Listed) => boolean
  /** Items of the mirror that the kernel has. */
  readonly #seen = new Set<Item>()
  readonly #doubtful: string[] = []
  #count = 0

  /** @param isSame whether the kernel has the whole item, when it lists `listed` under its key */
  constructor(mirror: AuditedMirror<Item>, isSame: (live: Item, listed: Listed) => boolean) {
    this.#mirror = mirror
    this.#isSame = isSame
  }

  /** Items of the list so far. */
  get count(): number {
    return this.#count
  }

  /** Compares one item of the list. An item that the list repeats is compared each time. */
  compare(key: string, listed: Listed): void {
    this.#count++
    const live = this.#mirror.live(key)
    if (live !== undefined) this.#seen.add(live)
    if (live === undefined || !this.#isSame(live, listed)) this.#doubtful.push(key)
  }

  /** The list begins again. */
  restart(): void {
    this.#seen.clear()
    this.#doubtful.length = 0
    this.#count = 0
  }

  /**
   * Ends the list: the mirror doubts what differed, and what it has of `keys` although the kernel does not list it. Resolves to whether it
   * doubts anything. An item that a pass wrote meanwhile may be doubted although it is right; reading it again shows that.
   */
  async end(keys: Iterable<string> = this.#mirror.liveKeys()): Promise<boolean> {
    let looked = 0
    for (const key of keys) {
      const live = this.#mirror.live(key)
      if (live !== undefined && !this.#seen.has(live)) this.#doubtful.push(key)
      if (++looked % KEYS_PER_TURN === 0) await nextTurn()
    }
    if (this.#doubtful.length > 0) this.#mirror.doubt(this.#doubtful)
    return this.#doubtful.length > 0
  }
}
