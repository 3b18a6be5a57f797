/** Which entries belong in the sets of ipset. */
import { Contributions } from '../sync/contributions.ts'
import { definitionOf } from './catalogue.ts'
import { entryKey, type SetEntry } from './types.ts'

/** Nothing is wanted yet. */
export function wantedEntries(): Contributions<SetEntry> {
  return new Contributions({
    key: entryKey,
    equal: (a, b) => a.set === b.set && a.entry === b.entry,
    set: (entry) => entry.set,
    rank: (set) => definitionOf(set)?.rank ?? 0,
  })
}
