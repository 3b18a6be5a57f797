/**
 * The audit of the sets: it compares them and their entries with the mirrors, because ipset
 * announces no changes. The mirrors may change while a set is listed, so the reconciler reads every
 * difference again before it changes anything.
 * @impure
 */
import type { AuditShare } from '../sync/audit.ts'
import { type AuditedMirror, Comparison } from '../sync/comparison.ts'
import type { Budget } from '../values/budget.ts'
import { newAuditBudget } from '../values/event-loop.ts'
import type { IpFamily } from '../values/protocol.ts'
import { CATALOGUE, type SetDefinition, type SetName } from './catalogue.ts'
import type { IpsetConnection } from './connection.ts'
import { familyOfSet, sameEntry, sameSet } from './diff.ts'
import { entryKey, type ListedSet, type SetEntry, type SetEntryKey, type SetParameters } from './types.ts'

/** The entries that the mirror has of all sets; there may be hundreds of thousands. */
export interface LiveEntries {
  forEachLive(visit: (entry: SetEntry, key: SetEntryKey) => void): void
}

/** How many entries the mirror has of each set that has any. */
export function countEntries(entries: LiveEntries): Map<SetName, number> {
  const counts = new Map<SetName, number>()
  entries.forEachLive(({ set }) => counts.set(set, (counts.get(set) ?? 0) + 1))
  return counts
}

export interface SetAuditOptions {
  /** A connection that is used for nothing else, so that a change never waits for a list. */
  readonly ipset: IpsetConnection
  readonly families: readonly IpFamily[]
  readonly sets: AuditedMirror<SetParameters>
  readonly entries: AuditedMirror<SetEntry> & LiveEntries
  readonly share: AuditShare
  /** A difference was found: the caller should ask for a pass. */
  readonly onDoubt: () => void
  readonly signal: AbortSignal
}

/** One round over all sets. Rejects when the kernel cannot be read, or when aborted. */
export async function auditSets(options: SetAuditOptions): Promise<void> {
  const { share, entries, families, signal } = options
  const budget = newAuditBudget()
  const listed = await auditParameters(options)
  const expected = countEntries(entries)
  const due = CATALOGUE.filter(({ name, family }) => {
    return families.includes(family) && (expected.has(name) || (listed.get(name)?.elements ?? 0) > 0)
  })
  const keys = new Map<SetName, SetEntryKey[]>(due.map(({ name }) => [name, []]))
  await budget.turn()
  entries.forEachLive(({ set }, key) => keys.get(set)?.push(key))
  await share.rest(budget, signal)
  for (const set of due) {
    await auditEntries(options, set, keys.get(set.name) ?? [], budget)
    await share.rest(budget, signal)
  }
}

async function auditParameters({
  ipset,
  sets,
  families,
  onDoubt,
  signal,
}: SetAuditOptions): Promise<ReadonlyMap<SetName, ListedSet>> {
  const listed = new Map<SetName, ListedSet>()
  const comparison = new Comparison<SetParameters>(sets, { isSame: sameSet })
  for (const set of await ipset.listSets({ signal })) {
    const family = familyOfSet(set.name)
    if (family === undefined || !families.includes(family)) continue
    listed.set(set.name, set)
    comparison.compare(set.name, set)
  }
  if (comparison.end()) onDoubt()
  return listed
}

async function auditEntries(
  { ipset, entries, onDoubt, signal }: SetAuditOptions,
  set: SetDefinition,
  keys: readonly SetEntryKey[],
  budget: Budget,
): Promise<void> {
  const comparison = new Comparison<SetEntry>(entries, { isSame: sameEntry, keys: () => keys })
  const onRestart = (): void => comparison.restart()
  await ipset.visitEntries(set, (entry) => comparison.compare(entryKey(entry), entry), {
    signal,
    budget,
    onRestart,
  })
  if (comparison.end()) onDoubt()
}
