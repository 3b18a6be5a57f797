/** The ends of all ways of a packet as outcomes: the steps that they have in common, and each different end once. */
import { type Ended, listOf } from './state.ts'
import type { Condition, Outcome, PathStep } from './types.ts'

export interface MergedOutcomes {
  readonly steps: readonly PathStep[]
  readonly outcomes: readonly Outcome[]
}

export function mergedOutcomes(ended: readonly Ended[]): MergedOutcomes {
  const ways = ended.map(
    ({ state, end }): Outcome => ({
      end,
      share: state.share,
      conditions: listOf(state.conditions),
      steps: listOf(state.steps),
    }),
  )
  const groups = Map.groupBy(ways, ({ end }) =>
    JSON.stringify({ ...end, answer: undefined, to: 'answer' in end ? end.answer.kind : '' }),
  )
  const outcomes = Array.from(groups.values(), merged).flat()
  const [first] = outcomes
  if (first === undefined) return { steps: [], outcomes: [] }
  const length = outcomes.reduce((shared, { steps }) => commonLength(first.steps, steps, shared), first.steps.length)
  return {
    steps: first.steps.slice(0, length),
    outcomes: outcomes.map((outcome) => ({ ...outcome, steps: outcome.steps.slice(length) })),
  }
}

function commonLength(a: readonly PathStep[], b: readonly PathStep[], most: number): number {
  let length = 0
  while (length < most && a[length] !== undefined && a[length] === b[length]) length++
  return length
}

/** Ways to one end, or several that have become one. */
interface Way {
  readonly outcome: Outcome
  /** Its conditions as numbers, of which an opposite pair differs in the lowest bit. */
  readonly codes: readonly number[]
  /** Ways become one in the order in which they were found. */
  readonly place: number
}

/**
 * Ways to one end: those with the same conditions become one, and a condition falls away if its
 * opposite leads there too. Each way is looked up by its conditions, because there may be
 * thousands.
 */
function merged(outcomes: readonly Outcome[]): readonly Outcome[] {
  if (outcomes.length === 1) return outcomes
  const rules = new Map<string, number>()
  const ways = new Map<string, Way>()
  const queue: string[] = []
  let places = 0
  /** Ways with the same conditions exclude each other: their shares add up. */
  const add = (outcome: Outcome, codes: readonly number[]): void => {
    const key = codes.join()
    const before = ways.get(key)
    ways.set(key, {
      outcome: before === undefined ? outcome : { ...before.outcome, share: sum(before.outcome.share, outcome.share) },
      codes,
      place: before?.place ?? places++,
    })
    queue.push(key)
  }
  for (const outcome of outcomes)
    add(
      outcome,
      outcome.conditions.map((condition) => codeOf(condition, rules)),
    )
  for (let next = 0; next < queue.length; next++) {
    const way = ways.get(queue[next] ?? '')
    const pair = way && oppositeOf(way, ways)
    if (way === undefined || pair === undefined) continue
    const [kept, gone] = way.place < pair.way.place ? [way, pair.way] : [pair.way, way]
    ways.delete(kept.codes.join())
    ways.delete(gone.codes.join())
    add(
      { ...kept.outcome, conditions: kept.outcome.conditions.toSpliced(pair.at, 1) },
      kept.codes.toSpliced(pair.at, 1),
    )
  }
  return Array.from(ways.values(), ({ outcome }) => outcome)
}

function sum(a: number | null, b: number | null): number | null {
  return a === null || b === null ? null : a + b
}

/** The number of a condition: even where the rule does not match, odd where it does. */
function codeOf({ hook, table, rule, matches }: Condition, rules: Map<string, number>): number {
  const name = `${hook} ${table} ${rule}`
  const known = rules.get(name) ?? rules.size
  rules.set(name, known)
  return 2 * known + (matches ? 1 : 0)
}

/**
 * The earliest way with the same share whose conditions differ in one place, and there only in
 * whether the rule matches.
 */
function oppositeOf(
  { codes, outcome }: Way,
  ways: ReadonlyMap<string, Way>,
): { readonly way: Way; readonly at: number } | undefined {
  let found: { readonly way: Way; readonly at: number } | undefined
  for (const [at, code] of codes.entries()) {
    const way = ways.get(codes.with(at, code ^ 1).join())
    if (way === undefined || way.outcome.share !== outcome.share) continue
    if (found === undefined || way.place < found.way.place) found = { way, at }
  }
  return found
}
