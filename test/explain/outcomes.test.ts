/**
 * Ways to the same end become one outcome without changing what is true under each assumption, and
 * in time that does not grow with pairs.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { mergedOutcomes } from '../../src/explain/outcomes.ts'
import type { Condition, End, Outcome, PacketPath } from '../../src/explain/types.ts'
import type { Ended } from '../../src/explain/state.ts'
import { deadline } from '../support/deadline.ts'
import { explain, worldOf } from './world.ts'

const condition = (rule: number, matches: boolean): Condition => ({
  hook: 'INPUT',
  table: 'filter',
  rule: `-A INPUT ${rule}`,
  matches,
  because: 'the match x',
})
const refused = (by: string): End => ({ kind: 'refused', by })

/** A way whose conditions are in the order in which they were made. */
function way(end: End, share: number, conditions: readonly Condition[]): Ended {
  let linked: Ended['state']['conditions']
  for (const value of conditions) linked = { value, before: linked }
  return { end, state: { share, conditions: linked, steps: undefined } as Ended['state'] } // all that is read of it
}

/** What rules decide: a leaf is an end, an inner node a rule that cannot be judged. */
type Tree =
  | { readonly end: string; readonly share: number }
  | { readonly rule: number; readonly yes: Tree; readonly no: Tree }

function waysOf(tree: Tree, conditions: readonly Condition[] = []): readonly Ended[] {
  if ('end' in tree) return [way(refused(tree.end), tree.share, conditions)]
  const { rule, yes, no } = tree
  return [
    ...waysOf(no, [...conditions, condition(rule, false)]),
    ...waysOf(yes, [...conditions, condition(rule, true)]),
  ]
}

/** The shares of each end if exactly these rules match. */
function truth(outcomes: readonly Outcome[], matching: ReadonlySet<number>): ReadonlyMap<string, number> {
  const shares = new Map<string, number>()
  for (const { end, share, conditions } of outcomes) {
    const holds = conditions.every(({ rule, matches }) => matching.has(Number(rule.split(' ')[2])) === matches)
    if (holds && end.kind === 'refused') shares.set(end.by, (shares.get(end.by) ?? 0) + (share ?? Number.NaN))
  }
  return shares
}

const outcomesOf = (ways: readonly Ended[]): readonly Outcome[] => mergedOutcomes(ways).outcomes
const RULES = [0, 1, 2, 3]

describe('mergedOutcomes', () => {
  const leaf = fc.record({ end: fc.constantFrom('a', 'b'), share: fc.constant(1) })
  /** Each rule at most once on a way, in any order. */
  const tree = (left: readonly number[]): fc.Arbitrary<Tree> =>
    left.length === 0
      ? leaf
      : fc.oneof(
          { weight: 1, arbitrary: leaf },
          {
            weight: 3,
            arbitrary: fc.constantFrom(...left).chain((rule) => {
              const rest = tree(left.filter((one) => one !== rule))
              return fc.record({ rule: fc.constant(rule), yes: rest, no: rest })
            }),
          },
        )

  it('changes nothing about what happens, whichever rules match, and leaves no pair that is opposite in one rule', () => {
    fc.assert(
      fc.property(tree(RULES), (one) => {
        const ways = waysOf(one)
        const before = ways.map(({ end, state }): Outcome => {
          const conditions: Condition[] = []
          for (let at = state.conditions; at !== undefined; at = at.before) conditions.unshift(at.value)
          return { end, share: state.share, conditions, steps: [] }
        })
        const after = outcomesOf(ways)
        for (let bits = 0; bits < 2 ** RULES.length; bits++) {
          const matching = new Set(RULES.filter((rule) => (bits & (1 << rule)) !== 0))
          assert.deepEqual([...truth(after, matching)].sort(), [...truth(before, matching)].sort())
        }
        for (const left of after)
          for (const right of after)
            assert.ok(JSON.stringify(left.end) !== JSON.stringify(right.end) || oppositions(left, right) !== 1)
      }),
    )
  })

  it('adds up the shares of ways with the same conditions', () => {
    const ways = [way(refused('a'), 0.25, []), way(refused('a'), 0.5, []), way(refused('b'), 0.25, [])]
    assert.deepEqual(
      outcomesOf(ways).map(({ share }) => share),
      [0.75, 0.25],
    )
  })

  it('merges thousands of ways in a moment', () => {
    const full = (rule: number): Tree =>
      rule === 13 ? { end: 'a', share: 1 } : { rule, yes: full(rule + 1), no: full(rule + 1) }
    const before = process.threadCpuUsage()
    assert.equal(outcomesOf(waysOf(full(0))).length, 1)
    assert.ok(usedMs(before) < deadline(5000))
  })
})

/** Processor time of this thread since then: the tests share the machine with others. */
function usedMs(since: NodeJS.CpuUsage): number {
  const { user, system } = process.threadCpuUsage(since)
  return (user + system) / 1000
}

/** In how many rules two outcomes differ, if they name the same rules; otherwise 0. */
function oppositions(a: Outcome, b: Outcome): number {
  if (a.conditions.length !== b.conditions.length) return 0
  if (!a.conditions.every(({ rule }, index) => rule === b.conditions[index]?.rule)) return 0
  return a.conditions.filter(({ matches }, index) => matches !== b.conditions[index]?.matches).length
}

describe('rules that cannot be judged in front of many real servers', () => {
  const rules = (target: string): string => {
    const lines = Array.from({ length: 8 }, (_, index) =>
      ['INPUT', 'OUTPUT', 'FORWARD'].map((chain) => `-A ${chain} -m string --string "x${index}" --algo bm ${target}`),
    )
    return [
      '*filter',
      ':INPUT ACCEPT [0:0]',
      ':OUTPUT ACCEPT [0:0]',
      ':FORWARD ACCEPT [0:0]',
      ...lines.flat(),
      'COMMIT',
      '',
    ].join('\n')
  }
  const servers = (count: number): string =>
    ['-A -t 10.96.10.1:80 -s rr']
      .concat(
        Array.from(
          { length: count },
          (_, index) => `-a -t 10.96.10.1:80 -r 10.244.${index >> 8}.${index & 255}:8080 -m -w 1`,
        ),
      )
      .join('\n')
  const timed = (target: string, count: number): { readonly path: PacketPath; readonly ms: number } => {
    const world = worldOf({ rules: rules(target), servers: servers(count), addresses: '10.96.10.1/32' })
    const before = process.threadCpuUsage()
    const path = explain(world, {})
    return { path, ms: usedMs(before) }
  }

  for (const count of [16, 1000])
    it(`are followed in a moment where they mark (${count} real servers)`, () => {
      const { path, ms } = timed('-j MARK --set-xmark 0x1/0x1', count)
      // Of processor time: 6 s and more than 200 s before ways were looked up.
      assert.ok(ms < deadline(3000), `${ms} ms`)
      assert.equal(path.outcomes.length, count)
      assert.ok(Math.abs(path.outcomes.reduce((sum, { share }) => sum + (share ?? Number.NaN), 0) - 1) < 1e-9)
      assert.match(path.limits.join(), /more rules that cannot be judged than can be followed/)
    })

  it('are all followed where they drop, whatever the number of real servers', () => {
    const { path } = timed('-j DROP', 1000)
    assert.equal(path.outcomes.filter(({ end }) => end.kind === 'dropped').length, 8)
  })
})
