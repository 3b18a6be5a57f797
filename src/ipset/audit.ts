/**
 * The audit of the sets: it compares them and their entries with the mirrors, because ipset announces no changes. The mirrors
 * may change while a set is listed, so the reconciler reads every difference again before it changes anything. The number of
 * entries, which is cheap to read, shows nearly all changes made by hand.
 * @impure
 */
import type { CpuBudget } from '../sync/audit.ts'
import type { IpFamily } from '../values/protocol.ts'
import { CATALOGUE, type SetDefinition, type SetName } from './catalogue.ts'
import type { IpsetConnection } from './connection.ts'
import { familyOfSet, sameEntry, sameSet } from './diff.ts'
import { entryKey, type ListedSet, type SetEntry, type SetEntryKey, type SetParameters } from './types.ts'

/** The mirrors that the audit compares with. */
export interface AuditedMirror<Item> {
  live(key: string): Item | undefined
  liveEntries(): Iterable<readonly [string, Item]>
  doubt(keys: Iterable<string>): void
}

export interface SetAuditOptions {
  /** A connection that is used for nothing else, so that a change never waits for a list. */
  readonly ipset: IpsetConnection
  readonly families: readonly IpFamily[]
  /** Lists every set; otherwise a large set only when its number of entries differs. */
  readonly thorough: boolean
  readonly sets: AuditedMirror<SetParameters>
  readonly entries: AuditedMirror<SetEntry>
  readonly budget: CpuBudget
  /** Processor time of this process since its start, in milliseconds. */
  readonly cpuMs: () => number
  /** A difference was found: the caller should ask for a pass. */
  readonly onDoubt: () => void
  readonly signal: AbortSignal
}

/** Entries that the kernel lists in a millisecond. */
const LARGE = 1000

/** One round over all sets. Rejects when the kernel cannot be read, or when aborted. */
export async function auditSets(options: SetAuditOptions): Promise<void> {
  const { budget, cpuMs, families, thorough, signal } = options
  let startedMs = cpuMs()
  const listed = await auditParameters(options)
  const expected = new Map<SetName, SetEntryKey[]>()
  let items = listed.size
  for (const [key, { set }] of options.entries.liveEntries()) {
    const keys = expected.get(set)
    if (keys === undefined) expected.set(set, [key])
    else keys.push(key)
    items++
  }
  await budget.pay(cpuMs() - startedMs, items, signal)
  for (const set of CATALOGUE) {
    if (!families.includes(set.family)) continue
    startedMs = cpuMs()
    const keys = expected.get(set.name) ?? []
    const elements = listed.get(set.name)?.elements ?? 0
    if (keys.length === elements && (elements === 0 || (!thorough && elements > LARGE))) continue
    await auditEntries(options, set, keys)
    await budget.pay(cpuMs() - startedMs, keys.length, signal)
  }
}

async function auditParameters(options: SetAuditOptions): Promise<ReadonlyMap<SetName, ListedSet>> {
  const { ipset, sets, families, onDoubt, signal } = options
  const listed = new Map<SetName, ListedSet>()
  const doubtful: SetName[] = []
  for (const set of await ipset.listSets({ signal })) {
    const family = familyOfSet(set.name)
    if (family === undefined || !families.includes(family)) continue
    listed.set(set.name, set)
    const live = sets.live(set.name)
    if (live === undefined || !sameSet(live, set)) doubtful.push(set.name)
  }
  for (const [name] of sets.liveEntries()) if (!listed.has(name)) doubtful.push(name)
  report(doubtful, sets, onDoubt)
  return listed
}

async function auditEntries(options: SetAuditOptions, set: SetDefinition, keys: readonly SetEntryKey[]): Promise<void> {
  const { ipset, entries: mirror, onDoubt, signal } = options
  const missing = new Set(keys)
  const doubtful: SetEntryKey[] = []
  for (const entry of (await ipset.listEntries(set, { signal, yieldAfterMs: 4 })) ?? []) {
    const key = entryKey(entry)
    missing.delete(key)
    const live = mirror.live(key)
    if (live === undefined || !sameEntry(live, entry)) doubtful.push(key)
  }
  for (const key of missing) if (mirror.live(key) !== undefined) doubtful.push(key)
  report(doubtful, mirror, onDoubt)
}

function report<Item>(doubtful: readonly string[], mirror: AuditedMirror<Item>, onDoubt: () => void): void {
  if (doubtful.length === 0) return
  mirror.doubt(doubtful)
  onDoubt()
}
