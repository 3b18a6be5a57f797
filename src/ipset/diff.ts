/**
 * What differs between wanted and live sets and entries, as operations. Pure. A set with more
 * capacity than wanted stays as it is (it was enlarged) until half of the wanted capacity is
 * enough: kube-proxy works with no set of another capacity than its own. The kernel chooses the
 * number of buckets; a set with any other difference is replaced.
 */
import type { TableKind } from '../sync/table.ts'
import type { IpFamily } from '../values/protocol.ts'
import {
  CATALOGUE,
  definitionOf,
  HASH_SIZE,
  LAST_PORT,
  MAX_ELEMENTS,
  type SetDefinition,
  type SetName,
  temporaryName,
} from './catalogue.ts'
import { MAX_ENTRIES } from './codec-entry.ts'
import { entryKey, type SetEntry, type SetEntryOperation, type SetOperation, type SetParameters } from './types.ts'

const SWAP_NAMES: ReadonlyMap<SetName, SetDefinition> = new Map(CATALOGUE.map((set) => [temporaryName(set), set]))

/** The parameters with which kube-ipvs creates a set. */
export function parametersOf(set: SetDefinition): SetParameters {
  return set.type === 'bitmap:port'
    ? { type: set.type, family: undefined, maxElements: 0, firstPort: 0, lastPort: LAST_PORT, extras: '' }
    : { type: set.type, family: set.family, maxElements: MAX_ELEMENTS, firstPort: 0, lastPort: 0, extras: '' }
}

/** Whether two sets have the same kind of entries, so that one can be swapped for the other. */
export function sameKind(a: SetParameters, b: SetParameters): boolean {
  return a.type === b.type && a.family === b.family
}

/** Whether a live set has the type and family of the catalogue; its size does not matter. */
export function isOfKind(set: SetDefinition, live: SetParameters | undefined): boolean {
  const family = set.type === 'bitmap:port' ? undefined : set.family
  return live !== undefined && live.type === set.type && live.family === family
}

/** Whether a live set satisfies the wanted parameters, and is not far too large. */
export function isEnough(desired: SetParameters, live: SetParameters): boolean {
  const isSame = sameSet({ ...desired, maxElements: 0 }, { ...live, maxElements: 0 })
  return isSame && live.maxElements >= desired.maxElements && live.isOversized !== true
}

export function sameSet(a: SetParameters, b: SetParameters): boolean {
  return (
    sameKind(a, b) &&
    a.maxElements === b.maxElements &&
    a.firstPort === b.firstPort &&
    a.lastPort === b.lastPort &&
    a.extras === b.extras
  )
}

export function diffSet(
  name: SetName,
  desired: SetParameters | undefined,
  live: SetParameters | undefined,
): readonly SetOperation[] {
  if (desired === undefined) return live === undefined ? [] : [{ kind: 'destroy-set', name, parameters: live }]
  if (live === undefined) return [{ kind: 'create-set', name, parameters: desired }]
  if (isEnough(desired, live)) return []
  // Not smaller while it is filled: the set may have been enlarged before another program changed something else.
  const isFilled = sameKind(desired, live) && live.isOversized !== true
  const maxElements = isFilled ? Math.max(desired.maxElements, live.maxElements) : desired.maxElements
  return [{ kind: 'replace-set', name, parameters: { ...desired, maxElements }, replaced: live }]
}

/** Family of a set of ours, also of a replacement left behind; undefined for a set that is not ours. */
export function familyOfSet(name: SetName): IpFamily | undefined {
  return (definitionOf(name) ?? SWAP_NAMES.get(name))?.family
}

/** `ipset create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536` */
export function formatSetOperation(op: SetOperation): string {
  const { name } = op
  switch (op.kind) {
    case 'create-set':
      return formatCreate(name, op.parameters)
    case 'destroy-set':
      return `ipset destroy ${name}`
    case 'replace-set': {
      const set = definitionOf(name)
      const other = set === undefined ? `${name}-new` : temporaryName(set)
      return `${formatCreate(other, op.parameters)}; ipset swap ${other} ${name}; ipset destroy ${other}`
    }
  }
}

function formatCreate(name: SetName, parameters: SetParameters): string {
  const { type, family, maxElements, firstPort, lastPort } = parameters
  if (family === undefined) return `ipset create ${name} ${type} range ${firstPort}-${lastPort}`
  const inet = family === 'IPv4' ? 'inet' : 'inet6'
  return `ipset create ${name} ${type} family ${inet} hashsize ${HASH_SIZE} maxelem ${maxElements}`
}

/** Key: the set's name. */
export const SETS: TableKind<SetParameters, SetOperation> = {
  name: 'sets',
  key: (op) => op.name,
  diff: diffSet,
  equal: sameSet,
  step: (_live, op) => (op.kind === 'destroy-set' ? undefined : op.parameters),
  direction: (op) => (op.kind === 'destroy-set' ? 'remove' : 'add'),
  text: formatSetOperation,
}

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

/** `ipset add KUBE-CLUSTER-IP 10.96.0.1,tcp:443` */
export function formatEntryOperation(op: SetEntryOperation): string {
  return `ipset ${op.kind === 'add-entry' ? 'add' : 'del'} ${op.set} ${op.entry}`
}

/** Key: `SET entry`. */
export const SET_ENTRIES: TableKind<SetEntry, SetEntryOperation> = {
  name: 'set-entries',
  key: entryKey,
  diff: (_key, desired, live) => diffEntry(desired, live),
  equal: sameEntry,
  step: (_live, op) => (op.kind === 'add-entry' ? { set: op.set, entry: op.entry } : undefined),
  direction: (op) => (op.kind === 'add-entry' ? 'add' : 'remove'),
  text: formatEntryOperation,
}

/** The content of one message: entries of one set, either additions or deletions. */
export interface EntryGroup {
  readonly set: SetDefinition
  readonly kind: SetEntryOperation['kind']
  /** Indexes in the list of operations. */
  readonly indexes: readonly number[]
  /** The set was already enlarged for these entries. */
  readonly isEnlarged: boolean
}

/**
 * Operations as messages, in the order that the sets need: additions in the order of SET_ROLES,
 * then deletions in the reverse order. Operations on sets that are not ours are left out.
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
        parts.push({ set, kind, indexes: indexes.slice(from, from + MAX_ENTRIES), isEnlarged: false })
      return parts
    })
}
