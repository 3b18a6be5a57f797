/**
 * The sets and their entries in the kernel: the io of SETS and of SET_ENTRIES. Only sets of the
 * catalogue's 34 names, and what an interrupted replacement left, are ours; a set of any other name
 * is never touched.
 * @impure
 */
import { MessageBatch } from '../netlink/batch.ts'
import type { TableIo } from '../sync/table.ts'
import type { IpFamily } from '../values/protocol.ts'
import { CATALOGUE, definitionOf, MAX_ELEMENTS, type SetName } from './catalogue.ts'
import type { SetRequests } from './connection.ts'
import { familyOfSet, formatSetOperation, SET_ENTRIES, SETS } from './diff.ts'
import { EntryRun, type EntryRunOptions } from './entry-run.ts'
import { named } from './errors.ts'
import { recreate } from './recreate.ts'
import {
  entryKey,
  type ListedSet,
  type SetEntry,
  type SetEntryKey,
  type SetEntryOperation,
  setOfKey,
  type SetOperation,
  type SetParameters,
} from './types.ts'

/** The sets themselves. */
export class SetTable implements TableIo<SetParameters, SetOperation> {
  readonly kind = SETS
  readonly #ipset: SetRequests
  readonly #families: readonly IpFamily[]

  /** Sets of these families. */
  constructor(ipset: SetRequests, families: readonly IpFamily[]) {
    this.#ipset = ipset
    this.#families = families
  }

  isOurs(name: SetName): boolean {
    const family = familyOfSet(name)
    return family !== undefined && this.#families.includes(family)
  }

  async list(keys: readonly SetName[] | 'all', signal: AbortSignal): Promise<Map<SetName, SetParameters>> {
    const wanted = keys === 'all' ? undefined : new Set(keys)
    const found = new Map<SetName, SetParameters>()
    for (const set of await this.#ipset.listSets({ signal })) {
      const { name, type, family, maxElements, firstPort, lastPort, extras } = set
      if (!this.isOurs(name) || wanted?.has(name) === false) continue
      const parameters = { type, family, maxElements, firstPort, lastPort, extras }
      found.set(name, (await this.#isOversized(set, signal)) ? { ...parameters, isOversized: true } : parameters)
    }
    return found
  }

  async #isOversized({ name, maxElements, elements }: ListedSet, signal: AbortSignal): Promise<boolean> {
    const set = definitionOf(name)
    if (set === undefined || maxElements <= MAX_ELEMENTS) return false
    // Kernels before 4.9 list no number of entries. A set of unknown size may stay large.
    if (elements > 0) return elements <= MAX_ELEMENTS / 2
    try {
      return ((await this.#ipset.listEntries(set, { signal })) ?? []).length <= MAX_ELEMENTS / 2
    } catch {
      signal.throwIfAborted()
      return false
    }
  }

  async apply(ops: readonly SetOperation[], signal: AbortSignal): Promise<readonly (Error | undefined)[]> {
    const outcomes: (Error | undefined)[] = []
    for (const op of ops) {
      signal.throwIfAborted()
      try {
        await this.#run(op, signal)
        outcomes.push(undefined)
      } catch (error) {
        signal.throwIfAborted()
        outcomes.push(named(error, formatSetOperation(op)))
      }
    }
    return outcomes
  }

  async #run(op: SetOperation, signal: AbortSignal): Promise<void> {
    if (op.kind === 'destroy-set') return this.#ipset.destroy(op.name)
    const set = definitionOf(op.name)
    if (set === undefined) throw new TypeError(`the set ${op.name} is not in the catalogue`)
    if (op.kind === 'create-set') return this.#ipset.create(set.name, set.type, op.parameters)
    await recreate(this.#ipset, set, op.parameters, { signal })
  }
}

export interface EntryTableOptions extends EntryRunOptions {
  /** Entries of sets of these families. */
  readonly families: readonly IpFamily[]
}

/** The entries of our sets. */
export class EntryTable implements TableIo<SetEntry, SetEntryOperation> {
  readonly kind = SET_ENTRIES
  readonly #ipset: SetRequests
  readonly #options: EntryTableOptions
  readonly #batch = new MessageBatch(64 << 10)

  constructor(ipset: SetRequests, options: EntryTableOptions) {
    this.#ipset = ipset
    this.#options = options
  }

  isOurs(key: SetEntryKey): boolean {
    const set = definitionOf(setOfKey(key))
    return set !== undefined && this.#options.families.includes(set.family)
  }

  /** A set that is missing or of another type has no entries. */
  async list(keys: readonly SetEntryKey[] | 'all', signal: AbortSignal): Promise<Map<SetEntryKey, SetEntry>> {
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

  /**
   * Runs the operations in the order that the sets need (see groupsOf) instead of that of `ops`:
   * each key has one operation.
   */
  apply(ops: readonly SetEntryOperation[], signal: AbortSignal): Promise<readonly (Error | undefined)[]> {
    return new EntryRun(ops, this.#ipset, this.#batch, this.#options, signal).outcomes()
  }
}
