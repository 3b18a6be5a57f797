/**
 * The entries of our sets behind the contract of every kernel table. Key: `SET entry`.
 * What could break: a set of another type under one of our names reads as empty; its entries are none of ours, and
 * whoever keeps the sets replaces it first.
 */
import { MessageBatch } from '../netlink/batch.ts'
import type { KernelTable } from '../sync/table.ts'
import type { IpFamily } from '../values/protocol.ts'
import { CATALOGUE, definitionOf } from './catalogue.ts'
import type { IpsetConnection } from './connection.ts'
import { diffEntry, directionOfEntry, formatEntryOperation, sameEntry, stepEntry } from './entry-diff.ts'
import { EntryRun, type EntryRunOptions } from './entry-run.ts'
import { entryKey, type SetEntry, type SetEntryKey, type SetEntryOperation, setOfKey } from './types.ts'

export interface EntryTableOptions extends EntryRunOptions {
  /** Entries of sets of these families. */
  readonly families: readonly IpFamily[]
}

export class EntryTable implements KernelTable<SetEntry, SetEntryOperation> {
  readonly name = 'set-entries'
  readonly #ipset: IpsetConnection
  readonly #options: EntryTableOptions
  readonly #batch = new MessageBatch(64 << 10)

  constructor(ipset: IpsetConnection, options: EntryTableOptions) {
    this.#ipset = ipset
    this.#options = options
  }

  readonly diff = (_key: SetEntryKey, desired: SetEntry | undefined, live: SetEntry | undefined) =>
    diffEntry(desired, live)
  readonly equal = sameEntry
  readonly step = (_live: SetEntry | undefined, op: SetEntryOperation) => stepEntry(op)
  readonly direction = directionOfEntry
  readonly format = formatEntryOperation

  isOurs(key: SetEntryKey): boolean {
    const set = definitionOf(setOfKey(key))
    return set !== undefined && this.#options.families.includes(set.family)
  }

  /** A set that is missing or of another type has no entries. */
  async read(keys: readonly SetEntryKey[] | 'all', signal: AbortSignal): Promise<Map<SetEntryKey, SetEntry>> {
    const wanted = keys === 'all' ? undefined : new Set(keys)
    const names = keys === 'all' ? undefined : new Set(keys.map(setOfKey))
    const found = new Map<SetEntryKey, SetEntry>()
    for (const set of CATALOGUE) {
      if (!this.#options.families.includes(set.family) || names?.has(set.name) === false) continue
      for (const entry of (await this.#ipset.listEntries(set, { signal })) ?? []) {
        const key = entryKey(entry)
        if (wanted?.has(key) ?? true) found.set(key, entry)
      }
    }
    return found
  }

  /** In the order that the sets ask for (see groupsOf), which is not that of `ops`: each key has one operation. */
  apply(ops: readonly SetEntryOperation[], signal: AbortSignal): Promise<readonly (Error | undefined)[]> {
    return new EntryRun(ops, this.#ipset, this.#batch, this.#options, signal).outcomes()
  }
}
