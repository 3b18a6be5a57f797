/**
 * Which entries belong in the sets: those of all winning frontends, each once. An entry stays until no frontend contributes it
 * any more.
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
  readonly #wanted = new Map<SetEntryKey, Wanted>()
  readonly #sizes = new Map<SetName, number>()

  /**
   * Replaces the contribution of a frontend; an empty list withdraws it. Returns the entries that became unwanted, last set
   * first, then those that became wanted, in the order of the sets.
   */
  set(key: FrontendKey, entries: readonly SetEntry[]): readonly EntryChange[] {
    const before = this.#contributions.get(key) ?? NO_ENTRIES
    if (sameEntries(before, entries)) return NO_CHANGES
    if (entries.length === 0) this.#contributions.delete(key)
    else this.#contributions.set(key, entries)
    // Counts up before down, so that the count of an entry in both lists never drops to 0.
    const additions: EntryChange[] = []
    for (const entry of entries) this.#up(entry, additions)
    if (before.length === 0) return additions
    const removals: EntryChange[] = []
    for (const entry of before) this.#down(entry, removals)
    return [...removals.sort((a, b) => rankOf(b) - rankOf(a)), ...additions]
  }

  /** The contribution of a frontend. */
  of(key: FrontendKey): readonly SetEntry[] {
    return this.#contributions.get(key) ?? NO_ENTRIES
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
