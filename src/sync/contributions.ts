/**
 * Which entries belong in the sets of a firewall: those of all winning frontends, each once. An
 * entry stays until no frontend contributes it any more.
 */
import type { FrontendKey } from '../service/frontends.ts'

/** What an entry is. */
export interface EntryKind<Entry> {
  readonly key: (entry: Entry) => string
  /** Whether two entries have the same key. */
  readonly equal: (a: Entry, b: Entry) => boolean
  /** The name of its set. */
  readonly set: (entry: Entry) => string
  /** The place of a set in the order in which entries are added. */
  readonly rank: (set: string) => number
}

/** An entry that is now wanted, or no longer. */
export interface EntryChange<Entry> {
  readonly key: string
  readonly set: string
  /** Absent: no longer wanted. */
  readonly entry: Entry | undefined
}

const NOTHING: readonly never[] = []

export class Contributions<Entry> {
  readonly #kind: EntryKind<Entry>
  readonly #own = new Map<FrontendKey, readonly Entry[]>()
  /** The list that a frontend contributes together with others, and how many contribute each. */
  readonly #shared = new Map<FrontendKey, readonly Entry[]>()
  readonly #sharers = new Map<readonly Entry[], number>()
  readonly #wanted = new Set<string>()
  /** How many frontends contribute an entry beside the first one: most entries have one. */
  readonly #others = new Map<string, number>()
  readonly #sizes = new Map<string, number>()

  constructor(kind: EntryKind<Entry>) {
    this.#kind = kind
  }

  /**
   * Replaces the contribution of a frontend; an empty list withdraws it. Returns the entries that
   * became unwanted, then those that became wanted, both in the order of the sets: the reconciler
   * removes in reverse order, in stretches, so that the last set is rid of its entries first.
   * @param shared a list that other frontends contribute too: its entries count once for all of
   * them, and they precede the others
   */
  set(key: FrontendKey, entries: readonly Entry[], shared: readonly Entry[] = NOTHING): readonly EntryChange<Entry>[] {
    const before = this.#own.get(key) ?? NOTHING
    const sharedBefore = this.#shared.get(key) ?? NOTHING
    const isSharedAlike = sharedBefore === shared || sharedBefore.length + shared.length === 0
    if (isSharedAlike && this.#isSame(before, entries)) return NOTHING
    if (entries.length === 0) this.#own.delete(key)
    else this.#own.set(key, entries)
    if (shared.length === 0) this.#shared.delete(key)
    else this.#shared.set(key, shared)
    // Counts up before down, so that the count of an entry in both lists never drops to 0.
    const additions: EntryChange<Entry>[] = []
    if (this.#share(shared, 1) === 1) for (const entry of shared) this.#up(entry, additions)
    for (const entry of entries) this.#up(entry, additions)
    if (before.length + sharedBefore.length === 0) return additions
    const removals: EntryChange<Entry>[] = []
    if (this.#share(sharedBefore, -1) === 0) for (const entry of sharedBefore) this.#down(entry, removals)
    for (const entry of before) this.#down(entry, removals)
    const { rank } = this.#kind
    return [...removals.sort((a, b) => rank(a.set) - rank(b.set)), ...additions]
  }

  /** Returns how many frontends contribute the list now. */
  #share(list: readonly Entry[], more: number): number {
    const count = (this.#sharers.get(list) ?? 0) + more
    if (count === 0 || list.length === 0) this.#sharers.delete(list)
    else this.#sharers.set(list, count)
    return count
  }

  /** The contribution of a frontend. */
  of(key: FrontendKey): readonly Entry[] {
    const own = this.#own.get(key) ?? NOTHING
    const shared = this.#shared.get(key)
    return shared === undefined ? own : [...shared, ...own]
  }

  /** One entry at least of each set that a frontend contributes to. */
  samplesOf(key: FrontendKey): readonly Entry[] {
    const own = this.#own.get(key) ?? NOTHING
    const [first] = this.#shared.get(key) ?? NOTHING
    // Shared entries are all of one set.
    return first === undefined ? own : [first, ...own]
  }

  /** How many entries are wanted in a set. */
  size(set: string): number {
    return this.#sizes.get(set) ?? 0
  }

  #up(entry: Entry, changes: EntryChange<Entry>[]): void {
    const key = this.#kind.key(entry)
    if (this.#wanted.has(key)) return void this.#others.set(key, (this.#others.get(key) ?? 0) + 1)
    const set = this.#kind.set(entry)
    this.#wanted.add(key)
    this.#sizes.set(set, this.size(set) + 1)
    changes.push({ key, set, entry })
  }

  #down(entry: Entry, changes: EntryChange<Entry>[]): void {
    const key = this.#kind.key(entry)
    if (!this.#wanted.has(key)) return
    const others = this.#others.get(key) ?? 0
    if (others > 1) return void this.#others.set(key, others - 1)
    if (others === 1) return void this.#others.delete(key)
    const set = this.#kind.set(entry)
    this.#wanted.delete(key)
    this.#sizes.set(set, this.size(set) - 1)
    changes.push({ key, set, entry: undefined })
  }

  /** Whether two contributions are equal, in the same order. */
  #isSame(a: readonly Entry[], b: readonly Entry[]): boolean {
    if (a === b) return true
    if (a.length !== b.length) return false
    const { equal } = this.#kind
    return a.every((entry, index) => {
      const other = b[index]
      return other !== undefined && (entry === other || equal(entry, other))
    })
  }
}
