/**
 * OwnedMap compared with a naive model that keeps every claim in a flat list and sorts. The model
 * is the specification, so it must stay simple.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Claim, OwnedMap } from '../../src/sync/owned-map.ts'
import { WaitingClaims } from '../../src/sync/waiting-claims.ts'
import { deadline } from '../support/deadline.ts'

const same = (a: number, b: number): boolean => a === b
const mapOf = (): OwnedMap<string, number> => new OwnedMap<string, number>(same)
const claimOf = (owner: string, value: number, rank = 0, since = 0): Claim<number> => ({ owner, rank, since, value })

const KEYS = ['k1', 'k2'] as const

interface Command {
  readonly key: string
  readonly owner: string
  /** undefined: the owner withdraws its claim. */
  readonly claim: Claim<number> | undefined
}

const command: fc.Arbitrary<Command> = fc
  .record({
    key: fc.constantFrom(...KEYS),
    owner: fc.constantFrom('ns/a', 'ns/b', 'ns/c', 'ns/d'),
    rank: fc.nat(2),
    since: fc.nat(2),
    value: fc.nat(2),
    takesBack: fc.integer({ min: 0, max: 3 }).map((n) => n === 0),
  })
  .map(({ key, owner, rank, since, value, takesBack }) => ({
    key,
    owner,
    claim: takesBack ? undefined : { owner, rank, since, value },
  }))

/** The claims of each key in order, from the last command of each owner. */
function model(commands: readonly Command[]): Map<string, readonly Claim<number>[]> {
  const latest = new Map(commands.map((one) => [`${one.key} ${one.owner}`, one]))
  const claims = new Map<string, Claim<number>[]>()
  for (const { key, claim } of latest.values())
    if (claim !== undefined) claims.set(key, [...(claims.get(key) ?? []), claim])
  for (const list of claims.values())
    list.sort((a, b) => a.rank - b.rank || a.since - b.since || (a.owner < b.owner ? -1 : 1))
  return claims
}

function run(map: OwnedMap<string, number>, { key, owner, claim }: Command): boolean {
  return claim === undefined ? map.withdraw(key, owner) : map.claim(key, claim)
}

test('OwnedMap agrees with the naive model after any sequence and reports when the winner or its value changes', () => {
  fc.assert(
    fc.property(fc.array(command, { maxLength: 30 }), (commands) => {
      const map = mapOf()
      for (const [index, one] of commands.entries()) {
        const before = model(commands.slice(0, index)).get(one.key)?.[0]
        const after = model(commands.slice(0, index + 1))
        const now = after.get(one.key)?.[0]
        assert.equal(run(map, one), before?.owner !== now?.owner || before?.value !== now?.value)
        for (const key of KEYS) {
          const first = after.get(key)?.[0]
          assert.equal(map.get(key), first?.value)
          assert.equal(map.winner(key), first?.owner)
        }
        const lossCount = [...after.values()].reduce((sum, claims) => sum + claims.length - 1, 0)
        assert.equal(map.lossCount, lossCount)
      }
    }),
    { numRuns: 1000 },
  )
})

test('OwnedMap reports each new loss once, and none that has ended', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(command, fc.boolean()), { maxLength: 30 }), (steps) => {
      const map = mapOf()
      const commands: Command[] = []
      /** Losers, by key, that were reported and still lose. */
      let reported = new Set<string>()
      const losersNow = (): Set<string> =>
        new Set([...model(commands)].flatMap(([key, [, ...rest]]) => rest.map(({ owner }) => `${key} ${owner}`)))
      for (const [one, asks] of steps) {
        run(map, one)
        commands.push(one)
        const losing = losersNow()
        reported = new Set([...reported].filter((loss) => losing.has(loss)))
        if (!asks) continue
        const losses = map.takeNewLosses().map(({ key, loser }) => `${key} ${loser}`)
        assert.equal(new Set(losses).size, losses.length)
        for (const loss of losses) assert.ok(losing.has(loss) && !reported.has(loss), loss)
        reported = new Set([...reported, ...losses])
        assert.deepEqual([...reported].sort(), [...losing].sort())
      }
    }),
    { numRuns: 1000 },
  )
})

test('OwnedMap has the same result whatever the order of claims', () => {
  const claims = fc.uniqueArray(command, { selector: ({ key, owner }) => `${key} ${owner}`, maxLength: 8 })
  fc.assert(
    fc.property(
      claims.chain((list) => fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length }))),
      ([list, shuffled]) => {
        const winners = [list, shuffled].map((order) => {
          const map = mapOf()
          for (const one of order) run(map, one)
          return KEYS.map((key) => [key, map.winner(key), map.get(key)])
        })
        assert.deepEqual(winners[0], winners[1])
      },
    ),
  )
})

test('OwnedMap stores an equal new value without reporting a change', () => {
  const map = new OwnedMap<string, { n: number; note: string }>((a, b) => a.n === b.n)
  assert.equal(map.claim('k', { owner: 'ns/a', rank: 0, since: 0, value: { n: 1, note: 'old' } }), true)
  assert.equal(map.claim('k', { owner: 'ns/a', rank: 0, since: 0, value: { n: 1, note: 'new' } }), false)
  assert.equal(map.get('k')?.note, 'new')
})

test('OwnedMap keeps the older owner when two claim one key, and gives the key to the younger one when the older one withdraws', () => {
  const map = mapOf()
  assert.equal(map.claim('k', claimOf('ns/young', 2, 0, 200)), true)
  assert.equal(map.claim('k', claimOf('ns/old', 1, 0, 100)), true)
  assert.equal(map.winner('k'), 'ns/old')
  assert.deepEqual(map.takeNewLosses(), [{ key: 'k', winner: 'ns/old', loser: 'ns/young' }])
  assert.equal(map.claim('k', claimOf('ns/young', 3, 0, 200)), false, 'a loser changes nothing')
  assert.equal(map.withdraw('k', 'ns/old'), true)
  assert.equal(map.get('k'), 3)
  assert.deepEqual(map.takeNewLosses(), [])
})

test('OwnedMap ranks a claim before its age', () => {
  const map = mapOf()
  map.claim('k', claimOf('ns/old', 1, 2, 100))
  assert.equal(map.claim('k', claimOf('ns/young', 2, 0, 200)), true)
  assert.equal(map.winner('k'), 'ns/young')
})

test('OwnedMap remembers a bounded number of new losses and counts all', () => {
  const map = mapOf()
  for (let index = 0; index < 5000; index++) map.claim(`k${index}`, claimOf('ns/old', 1, 0, 100))
  for (let index = 0; index < 5000; index++) map.claim(`k${index}`, claimOf('ns/young', 1, 0, 200))
  assert.equal(map.lossCount, 5000)
  assert.equal(map.takeNewLosses().length, 100)
  assert.deepEqual(map.takeNewLosses(), [])
})

test('OwnedMap.claim takes time by the claims at its key, not by the size of the map', () => {
  let calls = 0
  const map = new OwnedMap<string, number>((a, b) => {
    calls++
    return a === b
  })
  for (let index = 0; index < 20_000; index++) map.claim(`k${index}`, claimOf(`ns/${index}`, 1))
  calls = 0
  assert.equal(map.claim('k7', claimOf('ns/7', 2)), true)
  assert.equal(calls, 1)
})

test('OwnedMap takes time by the logarithm of the claims at a key', () => {
  const count = 50_000
  const map = mapOf()
  const claim = (index: number): void => {
    map.claim('k', claimOf(`ns/s${(index * 7919) % count}`, index, 2, (index * 104_729) % count))
  }
  const startedMs = performance.now()
  for (let round = 0; round < 2; round++) for (let index = 0; index < count; index++) claim(index)
  for (let index = 0; index < count; index++) map.withdraw('k', `ns/s${(index * 31) % count}`)
  assert.deepEqual([map.size, map.lossCount], [0, 0])
  // Half a minute when each change moved all the others.
  assert.ok(performance.now() - startedMs < deadline(5000))
})

test('WaitingClaims gives its claims in order, after any additions and removals', () => {
  const step = fc.record({ owner: fc.nat(40), since: fc.nat(5), does: fc.constantFrom('add', 'remove', 'take') })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const precedes = (a: Claim<unknown>, b: Claim<unknown>): boolean =>
        a.since !== b.since ? a.since < b.since : a.owner < b.owner
      const waiting = new WaitingClaims<Claim<number>>(precedes)
      const expected = new Map<string, Claim<number>>()
      const sorted = (): Claim<number>[] => [...expected.values()].sort((a, b) => (precedes(a, b) ? -1 : 1))
      for (const { owner, since, does } of steps) {
        const name = `s${owner}`
        if (does === 'remove') assert.equal(waiting.remove(name), expected.delete(name))
        else if (does === 'take') {
          const [first] = sorted()
          assert.equal(waiting.takeFirst(), first)
          if (first !== undefined) expected.delete(first.owner)
        } else if (!waiting.has(name)) {
          const claim = claimOf(name, 0, 0, since)
          waiting.add(claim)
          expected.set(name, claim)
        }
        assert.deepEqual(waiting.inOrder(), sorted())
        assert.equal(waiting.size, expected.size)
      }
    }),
  )
})
