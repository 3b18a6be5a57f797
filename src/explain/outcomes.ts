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

/** Ways to one end: those with the same conditions become one, and a condition falls away if its opposite leads there too. */
function merged(ways: readonly Outcome[]): readonly Outcome[] {
  let outcomes = addedUp(ways)
  for (;;) {
    const pair = oppositePair(outcomes)
    if (pair === undefined) return outcomes
    const { kept, gone, without } = pair
    outcomes = addedUp([...outcomes.filter((one) => one !== kept && one !== gone), { ...kept, conditions: without }])
  }
}

/** Ways with the same conditions exclude each other: their shares add up. */
function addedUp(ways: readonly Outcome[]): readonly Outcome[] {
  const byConditions = new Map<string, Outcome>()
  for (const way of ways) {
    const key = JSON.stringify(way.conditions)
    const before = byConditions.get(key)
    const share =
      before === undefined || before.share === null || way.share === null ? way.share : before.share + way.share
    byConditions.set(key, before === undefined ? way : { ...before, share })
  }
  return Array.from(byConditions.values())
}

interface OppositePair {
  readonly kept: Outcome
  readonly gone: Outcome
  /** The conditions without the one in which they differ. */
  readonly without: readonly Condition[]
}

function oppositePair(outcomes: readonly Outcome[]): OppositePair | undefined {
  const withConditions = outcomes.filter(({ conditions }) => conditions.length > 0)
  for (const [index, kept] of withConditions.entries())
    for (const gone of withConditions.slice(index + 1)) {
      if (gone.share !== kept.share) continue
      const without = withoutOpposite(kept.conditions, gone.conditions)
      if (without !== undefined) return { kept, gone, without }
    }
  return undefined
}

/** The conditions without the only one that differs, and that differs only in whether the rule matches. */
function withoutOpposite(a: readonly Condition[], b: readonly Condition[]): readonly Condition[] | undefined {
  if (a.length !== b.length) return undefined
  const different = a.flatMap((condition, index) => {
    const other = b[index]
    return other !== undefined && sameRule(condition, other) && condition.matches === other.matches ? [] : [index]
  })
  const [at] = different
  const [one, other] = at === undefined ? [] : [a[at], b[at]]
  if (different.length !== 1 || one === undefined || other === undefined || !sameRule(one, other)) return undefined
  return a.toSpliced(at ?? 0, 1)
}

function sameRule(a: Condition, b: Condition): boolean {
  return a.rule === b.rule && a.table === b.table && a.hook === b.hook
}
