/**
 * Set entries as items and operations, and the messages they become. Pure.
 * What could break: an exception (nomatch) with the text of a wanted entry is not that entry; adding it again takes the
 * exception away.
 */
import type { Direction } from '../sync/table.ts'
import { definitionOf, type SetDefinition } from './catalogue.ts'
import { MAX_ENTRIES } from './codec-entry.ts'
import type { SetEntry, SetEntryOperation } from './types.ts'

export function sameEntry(a: SetEntry, b: SetEntry): boolean {
  return a.set === b.set && a.entry === b.entry && a.noMatch === b.noMatch
}

export function diffEntry(desired: SetEntry | undefined, live: SetEntry | undefined): readonly SetEntryOperation[] {
  if (desired === undefined) return live === undefined ? [] : [operation('delete-entry', live)]
  return live !== undefined && sameEntry(desired, live) ? [] : [operation('add-entry', desired)]
}

function operation(kind: SetEntryOperation['kind'], entry: SetEntry): SetEntryOperation {
  return { kind, set: entry.set, entry: entry.entry }
}

/** What one successful operation makes of the entry. */
export function stepEntry(op: SetEntryOperation): SetEntry | undefined {
  return op.kind === 'add-entry' ? { set: op.set, entry: op.entry } : undefined
}

export function directionOfEntry(op: SetEntryOperation): Direction {
  return op.kind === 'add-entry' ? 'add' : 'remove'
}

/** `ipset add KUBE-CLUSTER-IP 10.96.0.1,tcp:443` */
export function formatEntryOperation(op: SetEntryOperation): string {
  return `ipset ${op.kind === 'add-entry' ? 'add' : 'del'} ${op.set} ${op.entry}`
}

/** What goes into one message: entries of one set, all to be added or all to be deleted. */
export interface EntryGroup {
  readonly set: SetDefinition
  readonly kind: SetEntryOperation['kind']
  /** Places in the list of operations. */
  readonly indexes: readonly number[]
  /** The set was made larger for their sake already. */
  readonly grown: boolean
}

/**
 * Operations as messages, in the order that the sets ask for: what is added in the order of SET_ROLES, what is deleted
 * in the reverse order and after it. Operations on sets that are not ours are left out.
 */
export function groupsOf(ops: readonly SetEntryOperation[]): EntryGroup[] {
  const bySet = new Map<string, { set: SetDefinition; kind: SetEntryOperation['kind']; indexes: number[] }>()
  ops.forEach(({ kind, set: name }, index) => {
    const group = bySet.get(`${kind} ${name}`)
    if (group !== undefined) {
      group.indexes.push(index)
      return
    }
    const set = definitionOf(name)
    if (set !== undefined) bySet.set(`${kind} ${name}`, { set, kind, indexes: [index] })
  })
  const place = ({ kind, set }: Pick<EntryGroup, 'kind' | 'set'>): number =>
    kind === 'add-entry' ? set.rank : 1000 - set.rank
  return [...bySet.values()]
    .sort((a, b) => place(a) - place(b))
    .flatMap(({ set, kind, indexes }) => {
      const parts: EntryGroup[] = []
      for (let from = 0; from < indexes.length; from += MAX_ENTRIES)
        parts.push({ set, kind, indexes: indexes.slice(from, from + MAX_ENTRIES), grown: false })
      return parts
    })
}
