/**
 * OwnedMap held against a naive model that keeps every claim in a flat list and sorts.
 * What could break: the model is the specification; make it simpler, never cleverer.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { OwnedMap } from '../../src/sync/owned-map.ts'

const same = (a: number, b: number): boolean => a === b

interface Command {
  readonly owner: string
  readonly rank: number
  readonly keys: ReadonlyMap<string, number> | undefined
}

const contribution = fc
  .array(fc.tuple(fc.constantFrom('k1', 'k2', 'k3', 'k4', 'k5'), fc.nat(2)), { maxLength: 6 })
  .map((entries) => new Map(entries))

const command: fc.Arbitrary<Command> = fc.record({
  owner: fc.constantFrom('ns/a', 'ns/b', 'ns/c', 'ns/d'),
  rank: fc.nat(2),
  keys: fc.option(contribution, { nil: undefined, freq: 6 }),
})

/** Claimants of each key in order, from the last command of each owner. */
function model(commands: readonly Command[]): Map<string, { owner: string; value: number }[]> {
  const latest = new Map(commands.map((one) => [one.owner, one]))
  const claims = new Map<string, { owner: string; value: number }[]>()
  const ordered = [...latest.values()].sort((a, b) => a.rank - b.rank || (a.owner < b.owner ? -1 : 1))
  for (const { owner, keys } of ordered) {
    for (const [key, value] of keys ?? []) claims.set(key, [...(claims.get(key) ?? []), { owner, value }])
  }
  return claims
}

test('OwnedMap follows the naive model through any sequence and names exactly the keys that changed', () => {
  fc.assert(
    fc.property(fc.array(command, { maxLength: 30 }), (commands) => {
      const map = new OwnedMap<string, number>()
      for (const [index, { owner, rank, keys }] of commands.entries()) {
        const before = model(commands.slice(0, index))
        const after = model(commands.slice(0, index + 1))
        const changed = map.set(owner, rank, keys, same)
        const expected = ['k1', 'k2', 'k3', 'k4', 'k5'].filter((key) => {
          const [was, is] = [before.get(key)?.[0], after.get(key)?.[0]]
          return was?.owner !== is?.owner || was?.value !== is?.value
        })
        assert.deepEqual([...changed].sort(), expected)
        assert.equal(map.size, after.size)
        assert.deepEqual([...map.keys()].sort(), [...after.keys()].sort())
        for (const [key, [first]] of after) {
          assert.equal(map.get(key), first?.value)
          assert.equal(map.winner(key), first?.owner)
        }
        const losses = [...after].flatMap(([key, [first, ...rest]]) =>
          rest.map((loser) => ({ key, winner: first?.owner, loser: loser.owner })),
        )
        const byKey = (a: { key: string }, b: { key: string }): number => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)
        assert.deepEqual([...map.losers()].sort(byKey), losses.sort(byKey))
        const owners = new Set([...after.values()].flat().map((claim) => claim.owner))
        assert.deepEqual([...map.owners].sort(), [...owners].sort())
        assert.deepEqual([...map.keysOf(owner)].sort(), [...(keys?.keys() ?? [])].sort())
      }
    }),
    { numRuns: 500 },
  )
})

test('OwnedMap ends the same whatever the order of its owners', () => {
  const owners = fc.uniqueArray(command, { selector: (one) => one.owner, maxLength: 4 })
  fc.assert(
    fc.property(
      owners.chain((list) => fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length }))),
      ([list, shuffled]) => {
        const winners = [list, shuffled].map((order) => {
          const map = new OwnedMap<string, number>()
          for (const { owner, rank, keys } of order) map.set(owner, rank, keys, same)
          return [...map.keys()].sort().map((key) => [key, map.winner(key), map.get(key)])
        })
        assert.deepEqual(winners[0], winners[1])
      },
    ),
  )
})

test('OwnedMap.set keeps a new value that is the same without naming its key', () => {
  const map = new OwnedMap<string, { n: number; note: string }>()
  const sameN = (a: { n: number }, b: { n: number }): boolean => a.n === b.n
  assert.deepEqual(map.set('ns/a', 0, new Map([['k', { n: 1, note: 'old' }]]), sameN), ['k'])
  assert.deepEqual(map.set('ns/a', 0, new Map([['k', { n: 1, note: 'new' }]]), sameN), [])
  assert.equal(map.get('k')?.note, 'new')
})

test('OwnedMap gives a key to the older owner, and back when that one goes', () => {
  const map = new OwnedMap<string, number>()
  assert.deepEqual(map.set('ns/young', 200, new Map([['k', 2]]), same), ['k'])
  assert.deepEqual(map.set('ns/old', 100, new Map([['k', 1]]), same), ['k'])
  assert.equal(map.winner('k'), 'ns/old')
  assert.deepEqual([...map.losers()], [{ key: 'k', winner: 'ns/old', loser: 'ns/young' }])
  assert.deepEqual(map.set('ns/young', 200, new Map([['k', 3]]), same), [], 'a loser changes nothing')
  assert.deepEqual(map.set('ns/old', 100, undefined, same), ['k'])
  assert.equal(map.get('k'), 3)
  assert.deepEqual([...map.losers()], [])
})

test('OwnedMap.set costs as much as the owner, not as the map', () => {
  const calls = { same: 0 }
  const counting = (a: number, b: number): boolean => {
    calls.same++
    return a === b
  }
  const map = new OwnedMap<string, number>()
  for (let index = 0; index < 20_000; index++) map.set(`ns/${index}`, 0, new Map([[`k${index}`, 1]]), counting)
  calls.same = 0
  assert.deepEqual(map.set('ns/7', 0, new Map([['k7', 2]]), counting), ['k7'])
  assert.equal(calls.same, 1)
})
