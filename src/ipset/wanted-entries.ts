/**
 * Which entries belong in the sets: those of all winning frontends, each once, however many contribute it.
 * What could break: the count of each entry; it stays until its last contributor is gone.
 */
import type { FrontendKey } from '../service/frontends.ts'
import { definitionOf, type SetName } from './catalogue.ts'
import { entryKey, type SetEntry, type SetEntryKey, setOfKey } from './types.ts'

/** An entry that is wanted from now on, or (undefined) no longer. */
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
   * Replaces what this frontend contributes; none takes it all back. Returns what is wanted or no longer wanted by
   * anybody: what goes first, last set first, then what comes, in order of the sets.
   */
  set(key: FrontendKey, entries: readonly SetEntry[]): readonly EntryChange[] {
    const before = this.#contributions.get(key) ?? NO_ENTRIES
    if (sameEntries(before, entries)) return NO_CHANGES
    if (entries.length === 0) this.#contributions.delete(key)
    else this.#contributions.set(key, entries)
    // Counting up before down: an entry in both lists is never gone in between.
    const come: EntryChange[] = []
    for (const entry of entries) this.#up(entry, come)
    if (before.length === 0) return come
    const go: EntryChange[] = []
    for (const entry of before) this.#down(entry, go)
    return [...go.sort((a, b) => rankOf(b) - rankOf(a)), ...come]
  }

  /** What this frontend contributes. */
  of(key: FrontendKey): readonly SetEntry[] {
    return this.#contributions.get(key) ?? NO_ENTRIES
  }

  /** How many entries are wanted in a set. */
  size(set: SetName): number {
    return this.#sizes.get(set) ?? 0
  }

  #up(entry: SetEntry, changes: EntryChange[]): void {
    const key = entryKey(entry)
    const there = this.#wanted.get(key)
    if (there !== undefined) {
      there.count++
      return
    }
    this.#wanted.set(key, { entry, count: 1 })
    this.#sizes.set(entry.set, this.size(entry.set) + 1)
    changes.push({ key, entry })
  }

  #down(entry: SetEntry, changes: EntryChange[]): void {
    const key = entryKey(entry)
    const there = this.#wanted.get(key)
    if (there === undefined || --there.count > 0) return
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
