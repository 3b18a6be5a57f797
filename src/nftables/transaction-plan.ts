/**
 * Operations as messages, in the order that the kernel needs: what is referred to is added before
 * what refers to it, and removed after it. Base chains get their rules last, because until then no
 * packet sees the table. Pure.
 */
import type { MessageBatch } from '../netlink/batch.ts'
import { encodeDeleteChain, encodeFlushChain, encodeNewChain, encodeRule, messagesOf } from './chain-codec.ts'
import { encodeElements, MAX_ELEMENTS, MAX_MAP_ELEMENTS } from './element-codec.ts'
import type { IpFamily } from '../values/protocol.ts'
import { encodeDeleteSet, encodeNewSet } from './set-codec.ts'
import { encodeDeletePrivateTable, encodeNewTable } from './table-codec.ts'
import type { NftChain, NftElement, NftOperation } from './types.ts'

/** Messages that stay together in one transaction. */
export interface MessageGroup {
  /** Indexes of the operations in the list; several for elements that share messages. */
  readonly ops: readonly number[]
  readonly parts: readonly MessagePart[]
  /** How many elements or messages it has, which is what it costs the kernel. */
  readonly weight: number
}

/** What one call of `encode` adds to a batch: `messages` messages. */
export interface MessagePart {
  readonly messages: number
  readonly encode: (batch: MessageBatch, ids: SetIds) => void
  /** It deletes what nobody wants; that it is gone already is success. */
  readonly isDeletion?: true
  readonly message?: 'NEWCHAIN' | 'NEWRULE'
  readonly rule?: number
  /** Of elements: where they are. */
  readonly set?: SetPlace
}

/** A set by its name. */
export interface SetPlace {
  readonly family: IpFamily
  readonly name: string
}

/** Gives numbers to the anonymous sets of one transaction. */
export class SetIds {
  #next = 1

  /** The first of so many numbers. */
  take(count: number): number {
    const first = this.#next
    this.#next += count
    return first
  }
}

/** Elements that share messages and a transaction: about a millisecond of the kernel. */
const ELEMENTS_TOGETHER = 1000

/** The order of groups in a transaction. */
const PHASE = {
  table: 0,
  set: 1,
  chain: 2,
  chainRules: 3,
  elements: 4,
  baseChainRules: 5,
  flushedChain: 6,
  deletedChain: 7,
  deletedSet: 8,
  deletedTable: 9,
} as const

/** All operations as groups, in the order of their transaction. Those of elements are made when they are asked for. */
export function* groupsOf(ops: readonly NftOperation[]): Generator<MessageGroup, void, void> {
  const phases: MessageGroup[][] = Object.keys(PHASE).map(() => [])
  const put = (phase: number, index: number, ...parts: MessagePart[]): void =>
    void phases[phase]?.push({ ops: [index], parts, weight: parts.length })
  const elements: number[] = []
  for (const [index, { kind, item, hadHook }] of ops.entries()) {
    switch (item.kind) {
      case 'table':
        if (kind === 'delete')
          put(
            PHASE.deletedTable,
            index,
            deletion((batch) => encodeDeletePrivateTable(batch, item.family)),
          )
        else
          put(
            PHASE.table,
            index,
            part((batch) => encodeNewTable(batch, item.family, item.isOwned)),
          )
        break
      case 'set': {
        const remove = deletion((batch) => encodeDeleteSet(batch, item.family, item.name))
        const add = part((batch) => encodeNewSet(batch, item))
        if (kind === 'delete') put(PHASE.deletedSet, index, remove)
        else put(PHASE.set, index, ...(kind === 'replace' ? [remove] : []), add)
        break
      }
      case 'chain': {
        const flush = deletion((batch) => encodeFlushChain(batch, item.family, item.name))
        const remove = deletion((batch) => encodeDeleteChain(batch, item.family, item.name))
        if (kind === 'delete') {
          put(PHASE.flushedChain, index, flush)
          put(PHASE.deletedChain, index, remove)
          break
        }
        const add: MessagePart = { ...part((batch) => encodeNewChain(batch, item)), message: 'NEWCHAIN' }
        const rules = item.hook === undefined ? PHASE.chainRules : PHASE.baseChainRules
        if (kind === 'replace' && hadHook !== true) {
          put(rules, index, add, flush, ...rulesOf(item))
          break
        }
        // Nothing can jump to a base chain, so no packet sees that it is gone.
        put(PHASE.chain, index, ...(hadHook === true ? [flush, remove] : []), add)
        put(rules, index, ...rulesOf(item))
        break
      }
      case 'element':
        elements.push(index)
    }
  }
  for (const [phase, groups] of phases.entries()) {
    yield* groups.filter(({ parts }) => parts.length > 0)
    if (phase !== PHASE.elements) continue
    for (let from = 0; from < elements.length; from += ELEMENTS_TOGETHER)
      yield elementGroup(ops, elements.slice(from, from + ELEMENTS_TOGETHER))
  }
}

function part(encode: (batch: MessageBatch) => void): MessagePart {
  return { messages: 1, encode }
}

function deletion(encode: (batch: MessageBatch) => void): MessagePart {
  return { messages: 1, encode, isDeletion: true }
}

function rulesOf(chain: NftChain): readonly MessagePart[] {
  return chain.rules.map((rule, index): MessagePart => {
    const messages = messagesOf(rule)
    const encode = (batch: MessageBatch, ids: SetIds): void =>
      encodeRule(batch, chain.family, chain.name, rule, ids.take(messages))
    return { messages, encode, message: 'NEWRULE', rule: index }
  })
}

/** The same group as one for each of its operations, so that a refusal names one of them. */
export function splitGroup(ops: readonly NftOperation[], group: MessageGroup): readonly MessageGroup[] {
  return group.ops.map((index) => elementGroup(ops, [index]))
}

/** Operations on elements in one transaction: first those that are deleted, then those that are added, by their sets. */
export function elementGroup(ops: readonly NftOperation[], indexes: readonly number[]): MessageGroup {
  const deleted: BySet = { IPv4: new Map(), IPv6: new Map() }
  const added: BySet = { IPv4: new Map(), IPv6: new Map() }
  for (const index of indexes) {
    const op = ops[index]
    if (op?.item.kind !== 'element') continue
    if (op.kind !== 'add') append(deleted, op.item)
    if (op.kind !== 'delete') append(added, op.item)
  }
  const parts = [...partsOf('DELSETELEM', deleted), ...partsOf('NEWSETELEM', added)]
  return { ops: indexes, parts, weight: indexes.length }
}

/** Elements by family and the name of their set. */
type BySet = Readonly<Record<IpFamily, Map<string, NftElement[]>>>

function append(lists: BySet, element: NftElement): void {
  const list = lists[element.family].get(element.set)
  if (list === undefined) lists[element.family].set(element.set, [element])
  else list.push(element)
}

function partsOf(message: 'NEWSETELEM' | 'DELSETELEM', { IPv4, IPv6 }: BySet): MessagePart[] {
  const parts: MessagePart[] = []
  for (const elements of [...IPv4.values(), ...IPv6.values()]) {
    const most = elements.some(({ action }) => action !== undefined) ? MAX_MAP_ELEMENTS : MAX_ELEMENTS
    for (let from = 0; from < elements.length; from += most) {
      const some = elements.slice(from, from + most)
      const [first] = some
      if (first === undefined) continue
      const encode = (batch: MessageBatch): void => encodeElements(batch, message, first.family, first.set, some)
      const set = { family: first.family, name: first.set }
      parts.push({ ...(message === 'DELSETELEM' ? deletion(encode) : part(encode)), set })
    }
  }
  return parts
}
