/**
 * All chains at one hook in the order of their priorities (linux/netfilter_ipv4.h): those of the
 * tables of iptables, and those of the private table. Of the chains that translate, the first one
 * that decides is the last one that sees the packet.
 */
import { passTable, type TableResult } from './chains.ts'
import { passPrivateChain } from './private-chains.ts'
import type { PacketState, Prediction } from './state.ts'
import type { Hook } from './types.ts'

/** Tables of iptables that translate nothing. */
const FILTERS = [
  ['raw', -300],
  ['mangle', -150],
  ['filter', 0],
  ['security', 50],
] as const

/** Of the table nat; at FORWARD nothing is translated. */
export const NAT_PRIORITY: Readonly<Record<Hook, number>> = {
  PREROUTING: -100,
  INPUT: 100,
  FORWARD: 0,
  OUTPUT: -100,
  POSTROUTING: 100,
}

/** From a priority up to, but not with, another one. */
export interface Priorities {
  readonly from?: number
  readonly to?: number
}

/** The packet at the chains of a hook that translate nothing. */
export function passFilters(
  prediction: Prediction,
  hook: Hook,
  { from = Number.NEGATIVE_INFINITY, to = Number.POSITIVE_INFINITY }: Priorities,
  state: PacketState,
): TableResult {
  const tables = FILTERS.map(([table, priority]): Pass => [priority, (one) => passTable(prediction, table, hook, one)])
  const passes = [...tables, ...privatePasses(prediction, 'filter', hook, state)]
  return passAll(
    passes.filter(([priority]) => priority >= from && priority < to),
    state,
    () => false,
  )
}

/** The packet at the chains of a hook that translate its destination, or its source. */
export function passNat(
  prediction: Prediction,
  hook: Hook,
  part: keyof PacketState['natDone'],
  state: PacketState,
): TableResult {
  const table: Pass = [NAT_PRIORITY[hook], (one) => passTable(prediction, 'nat', hook, one)]
  const passes = [table, ...privatePasses(prediction, 'nat', hook, state)]
  const { passed, ended } = passAll(passes, state, ({ natDone }) => natDone[part])
  return { passed: passed.map((one) => ({ ...one, natDone: { ...one.natDone, [part]: true } })), ended }
}

type Pass = readonly [priority: number, pass: (state: PacketState) => TableResult]

function privatePasses(
  prediction: Prediction,
  type: 'filter' | 'nat',
  hook: Hook,
  { family }: PacketState,
): readonly Pass[] {
  const rules = prediction.picture.privateTables[family]
  if (rules === undefined) return []
  return rules
    .at(hook, type)
    .map((chain): Pass => [chain.hook.priority, (one) => passPrivateChain(prediction, rules, chain, hook, one)])
}

/** @param isDone whether no further chain sees the packet */
function passAll(passes: readonly Pass[], state: PacketState, isDone: (state: PacketState) => boolean): TableResult {
  const done: PacketState[] = []
  const allEnded: TableResult['ended'][number][] = []
  let live: readonly PacketState[] = [state]
  for (const [, pass] of passes.toSorted(([a], [b]) => a - b)) {
    const next: PacketState[] = []
    for (const one of live) {
      const { passed, ended } = pass(one)
      allEnded.push(...ended)
      for (const after of passed) (isDone(after) ? done : next).push(after)
    }
    live = next
  }
  return { passed: done.length === 0 ? live : [...done, ...live], ended: allEnded }
}
