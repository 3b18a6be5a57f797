/** Sorting in portions gives what sorting at once gives, and gives way to others. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Budget } from '../../src/values/budget.ts'
import { allOf } from '../support/budgets.ts'
import { mergeSorted, sortInPortions } from '../../src/values/merge.ts'

interface Item {
  readonly rank: number
  readonly place: number
}
const byRank = (a: Item, b: Item): number => a.rank - b.rank
const items = (ranks: readonly number[]): readonly Item[] => ranks.map((rank, place) => ({ rank, place }))

test('sortInPortions sorts as toSorted does, and equal items keep their order', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(20), { size: 'xlarge' }), (ranks) => {
      const list = items(ranks)
      assert.deepEqual(allOf(sortInPortions(list, byRank, new Budget())), list.toSorted(byRank))
    }),
    { numRuns: 20 },
  )
})

test('sortInPortions sorts a list of several portions', () => {
  const list = items(Array.from({ length: 5000 }, (_, index) => (index * 7919) % 1000))
  assert.deepEqual(allOf(sortInPortions(list, byRank, new Budget())), list.toSorted(byRank))
})

test('mergeSorted merges any number of lists', () => {
  fc.assert(
    fc.property(fc.array(fc.array(fc.nat(9), { maxLength: 6 }), { maxLength: 7 }), (ranks) => {
      const all = items(ranks.flat())
      let from = 0
      const lists = ranks.map(({ length }) => all.slice(from, (from += length)).sort(byRank))
      assert.deepEqual(allOf(mergeSorted(lists, byRank, new Budget())), all.toSorted(byRank))
    }),
  )
})

test('sortInPortions compares a bounded number of items between two turns', () => {
  let [compared, longest, turns] = [0, 0, 0]
  const counted = (a: number, b: number): number => {
    compared++
    all++
    return a - b
  }
  const list = Array.from({ length: 100_000 }, (_, index) => (index * 7919) % 100_003)
  let all = 0
  // 20 comparisons take a microsecond.
  const budget = new Budget({ now: () => all / 20_000 })
  const sorting = sortInPortions(list, counted, budget)
  for (let step = sorting.next(); step.done !== true; step = sorting.next()) {
    longest = Math.max(longest, compared)
    compared = 0
    turns++
    budget.begin()
  }
  // A stretch of 2 ms, and what is sorted at once.
  assert.ok(longest < 60_000, `${longest} comparisons in one turn`)
  assert.ok(turns > 30, `${turns} turns`)
})
