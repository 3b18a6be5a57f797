/**
 * The comparison of a kernel's list with the mirror of a table, item by item while the list
 * arrives. It keeps no listed item: in a large table they would live long enough to become old
 * objects of the heap, and each audit would make V8 collect the whole heap.
 */

/** The mirror that an audit compares with. */
export interface AuditedMirror<Item> {
  live(key: string): Item | undefined
  liveKeys(): Iterable<string>
  doubt(keys: readonly string[]): void
}

export interface ComparisonOptions<Item, Listed> {
  /** Whether the mirror's item has what the kernel lists under its key. */
  readonly isSame: (live: Item, listed: Listed) => boolean
  /** How many items of the list make up one of the mirror. Default 1. */
  readonly partsOf?: (live: Item) => number
  /** The keys that the list must contain. Default all of the mirror. */
  readonly keys?: () => Iterable<string>
}

export class Comparison<Item, Listed = Item> {
  readonly #mirror: AuditedMirror<Item>
  readonly #options: ComparisonOptions<Item, Listed>
  /** Keys that the mirror had when the list began, and that the list has not had in full. */
  #missing: Set<string>
  /** Parts found so far, of items that have several. */
  readonly #found = new Map<string, number>()
  readonly #doubtful: string[] = []

  /** To be made when the list begins: what a pass adds later need not be in the list. */
  constructor(mirror: AuditedMirror<Item>, options: ComparisonOptions<Item, Listed>) {
    this.#mirror = mirror
    this.#options = options
    this.#missing = this.#expected()
  }

  #expected(): Set<string> {
    return new Set((this.#options.keys ?? (() => this.#mirror.liveKeys()))())
  }

  /** Compares one item of the list with what the mirror has now. */
  compare(key: string, listed: Listed): void {
    const live = this.#mirror.live(key)
    if (live === undefined || !this.#options.isSame(live, listed)) this.#doubtful.push(key)
    else if (this.#isComplete(key, this.#options.partsOf?.(live) ?? 1)) this.#missing.delete(key)
  }

  #isComplete(key: string, parts: number): boolean {
    if (parts === 1) return true
    const found = (this.#found.get(key) ?? 0) + 1
    this.#found.set(key, found)
    return found >= parts
  }

  /** The list begins again. */
  restart(): void {
    this.#missing = this.#expected()
    this.#found.clear()
    this.#doubtful.length = 0
  }

  /**
   * Ends the list: the mirror doubts what differed, and what it still has although the list lacked
   * it. Returns whether it doubts anything.
   */
  end(): boolean {
    for (const key of this.#missing) if (this.#mirror.live(key) !== undefined) this.#doubtful.push(key)
    if (this.#doubtful.length === 0) return false
    this.#mirror.doubt(Array.from(new Set(this.#doubtful)))
    return true
  }
}
