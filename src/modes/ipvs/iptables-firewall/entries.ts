/**
 * The entries of the sets: those that frontends want, and those that are left to be removed. A set
 * counts as filled until its last entry is gone from the kernel, because its rules stay until then.
 */
import { countEntries } from '../../../ipset/audit.ts'
import type { SetName } from '../../../ipset/catalogue.ts'
import { entryOf, hairpinEntries, wantedEntries } from '../../../ipset/render.ts'
import { entryKey, type SetEntry, type SetEntryKey, type SetEntryOperation, setOfKey } from '../../../ipset/types.ts'
import type { AddressFrontend, FrontendKey } from '../../../service/frontends.ts'
import { membershipsOf } from '../../../service/policy.ts'
import type { TableIo } from '../../../sync/table.ts'
import { TableSync } from '../../../sync/table-sync.ts'

export interface FirewallEntriesOptions {
  readonly io: TableIo<SetEntry, SetEntryOperation>
  readonly nodeName: string
  /** An entry of this set was written or examined. */
  readonly onExamined: (set: SetName) => void
  /** How many entries of a set are wanted or left. */
  readonly onSize: (set: SetName, size: number) => void
}

export class FirewallEntries {
  readonly sync: TableSync<SetEntry, SetEntryOperation>
  readonly #options: FirewallEntriesOptions
  readonly #wanted = wantedEntries()
  /** Entries by set that are no longer wanted and not removed yet. */
  readonly #leaving = new Map<SetName, Set<SetEntryKey>>()

  constructor(options: FirewallEntriesOptions) {
    this.#options = options
    this.sync = new TableSync(options.io, { onExamined: (key) => this.#examined(key) })
  }

  /** The winning frontend of this key has changed; undefined: it has none. */
  frontend(key: FrontendKey, frontend: AddressFrontend | undefined): void {
    // Mapped, because a copy has no room for more (see `present` in src/values/lists.ts).
    const entries = frontend === undefined ? [] : membershipsOf(frontend).map(entryOf)
    const hairpins = frontend && hairpinEntries(frontend, this.#options.nodeName)
    const changed = new Set<SetName>()
    for (const change of this.#wanted.set(key, entries, hairpins)) {
      const { set } = change
      if (change.entry === undefined && this.sync.live(change.key) !== undefined) this.#leave(set, change.key)
      else this.#leaving.get(set)?.delete(change.key)
      this.sync.want(change.key, change.entry)
      changed.add(set)
    }
    for (const set of changed) this.#resize(set)
  }

  /** The entries that a frontend needs. */
  of(key: FrontendKey): readonly SetEntry[] {
    return this.#wanted.of(key)
  }

  /** One of them at least for each set. */
  samplesOf(key: FrontendKey): readonly SetEntry[] {
    return this.#wanted.samplesOf(key)
  }

  /** Whether the kernel has the entry. */
  has(entry: SetEntry): boolean {
    return this.sync.live(entryKey(entry)) !== undefined
  }

  /** How many the kernel has of each set that has any. */
  count(): ReadonlyMap<SetName, number> {
    return countEntries(this.sync)
  }

  /** The set was lost, or was replaced. */
  doubt(set: SetName): void {
    this.sync.doubt([...this.sync.desiredKeys()].filter((key) => setOfKey(key) === set))
  }

  /** Finds entries that an earlier process left and that nothing wants. */
  findLeaving(): void {
    this.sync.forEachLive(({ set }, key) => {
      if (this.sync.desired(key) !== undefined) return
      this.#leave(set, key)
      this.#resize(set)
    })
  }

  #leave(set: SetName, key: SetEntryKey): void {
    const leaving = this.#leaving.get(set)
    if (leaving === undefined) this.#leaving.set(set, new Set([key]))
    else leaving.add(key)
  }

  #resize(set: SetName): void {
    this.#options.onSize(set, this.#wanted.size(set) + (this.#leaving.get(set)?.size ?? 0))
  }

  #examined(key: SetEntryKey): void {
    const set = setOfKey(key)
    this.#options.onExamined(set)
    const leaving = this.#leaving.get(set)
    if (leaving === undefined || leaving.size === 0 || this.sync.live(key) !== undefined) return
    if (leaving.delete(key)) this.#resize(set)
  }
}
