/**
 * Which entries belong in the sets: those of all winning frontends, each once. An entry stays until
 * no frontend contributes it any more.
 */
import type { FrontendKey } from '../service/frontends.ts'
import { definitionOf, type SetName } from './catalogue.ts'
import { entryKey, type SetEntry, type SetEntryKey, setOfKey } from './types.ts'

/** An entry that is now wanted, or (undefined) no longer wanted. */
export interface EntryChange {
  readonly key: SetEntryKey
  readonly entry: SetEntry | undefined
}

interface Wanted {
  readonly entry: SetEntry
  count: number
}

const NO_ENTRIES: readonly SetEntry[] = []
const NO_CHANGES: readonly EntryChange[] = []

export class WantedEntries {
  readonly #contributions = new Map<FrontendKey, readonly SetEntry[]>()
  /** The list that a frontend contributes together with others, and how many contribute each. */
  readonly #shared = new Map<FrontendKey, readonly SetEntry[]>()
  readonly #sharers = new Map<readonly SetEntry[], number>()
  readonly #wanted = new Map<SetEntryKey, Wanted>()
  readonly #sizes = new Map<SetName, number>()

  /**
   * Replaces the contribution of a frontend; an empty list withdraws it. Returns the entries that
   * became unwanted, last set first, then those that became wanted, in the order of the sets.
   * @param shared a list that other frontends contribute too: its entries count once for all of
   * them, and they precede the others
   */
  set(key: FrontendKey, entries: readonly SetEntry[], shared = NO_ENTRIES): readonly EntryChange[] {
    const before = this.#contributions.get(key) ?? NO_ENTRIES
    const sharedBefore = this.#shared.get(key) ?? NO_ENTRIES
    const isSharedAlike = sharedBefore === shared || sharedBefore.length + shared.length === 0
    if (isSharedAlike && sameEntries(before, entries)) return NO_CHANGES
    if (entries.length === 0) this.#contributions.delete(key)
    else this.#contributions.set(key, entries)
    if (shared.length === 0) this.#shared.delete(key)
    else this.#shared.set(key, shared)
    // Counts up before down, so that the count of an entry in both lists never drops to 0.
    const additions: EntryChange[] = []
    if (this.#share(shared, 1) === 1) for (const entry of shared) this.#up(entry, additions)
    for (const entry of entries) this.#up(entry, additions)
    if (before.length + sharedBefore.length === 0) return additions
    const removals: EntryChange[] = []
    if (this.#share(sharedBefore, -1) === 0) for (const entry of sharedBefore) this.#down(entry, removals)
    for (const entry of before) this.#down(entry, removals)
    return [...removals.sort((a, b) => rankOf(b) - rankOf(a)), ...additions]
  }

  /** Returns how many frontends contribute the list now. */
  #share(list: readonly SetEntry[], more: number): number {
    const count = (this.#sharers.get(list) ?? 0) + more
    if (count === 0 || list.length === 0) this.#sharers.delete(list)
    else this.#sharers.set(list, count)
    return count
  }

  /** The contribution of a frontend. */
  of(key: FrontendKey): readonly SetEntry[] {
    const own = this.#contributions.get(key) ?? NO_ENTRIES
    const shared = this.#shared.get(key)
    return shared === undefined ? own : [...shared, ...own]
  }

  /** One entry at least of each set that a frontend contributes to. */
  samplesOf(key: FrontendKey): readonly SetEntry[] {
    const own = this.#contributions.get(key) ?? NO_ENTRIES
    const [first] = this.#shared.get(key) ?? NO_ENTRIES
    // Shared entries are all of one set.
    return first === undefined ? own : [first, ...own]
  }

  /** How many entries are wanted in a set. */
  size(set: SetName): number {
    return this.#sizes.get(set) ?? 0
  }

  #up(entry: SetEntry, changes: EntryChange[]): void {
    const key = entryKey(entry)
    const known = this.#wanted.get(key)
    if (known !== undefined) {
      known.count++
      return
    }
    this.#wanted.set(key, { entry, count: 1 })
    this.#sizes.set(entry.set, this.size(entry.set) + 1)
    changes.push({ key, entry })
  }

  #down(entry: SetEntry, changes: EntryChange[]): void {
    const key = entryKey(entry)
    const known = this.#wanted.get(key)
    if (known === undefined || --known.count > 0) return
    this.#wanted.delete(key)
    this.#sizes.set(entry.set, this.size(entry.set) - 1)
    changes.push({ key, entry: undefined })
  }
}

function rankOf(change: EntryChange): number {
  return definitionOf(setOfKey(change.key))?.rank ?? 0
}

/** Whether two contributions are equal, in the same order. */
function sameEntries(a: readonly SetEntry[], b: readonly SetEntry[]): boolean {
  if (a === b) return true
  if (a.length !== b.length) return false
  return a.every((entry, index) => entry.set === b[index]?.set && entry.entry === b[index]?.entry)
}
