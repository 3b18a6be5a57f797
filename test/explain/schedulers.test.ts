/** The shares of real servers by scheduler, weight and flags. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { schedule } from '../../src/explain/schedulers.ts'
import { SCHEDULERS, schedulerTraits } from '../../src/values/schedulers.ts'
import { FLAG_SCHED_1, type RealServer } from '../../src/ipvs/types.ts'

const servers = (...weights: readonly number[]): readonly RealServer[] =>
  weights.map((weight, index) => ({
    address: `10.244.0.${index + 1}`,
    port: 8080,
    weight,
    forwarding: 'masquerade',
    upperThreshold: 0,
    lowerThreshold: 0,
  }))

describe('shares of new connections', () => {
  const rows: readonly [
    what: string,
    scheduler: string,
    flags: number,
    weights: number[],
    shares: (number | null)[],
    choice?: string | undefined,
    nobody?: number,
  ][] = [
    ['rr ignores weights', 'rr', 0, [1, 3], [0.5, 0.5], 'turns'],
    ['rr leaves out weight 0', 'rr', 0, [1, 0, 1], [0.5, 0.5], 'turns'],
    ['wrr follows weights', 'wrr', 0, [1, 3], [0.25, 0.75], 'turns'],
    ['one real server gets everything', 'lc', 0, [0, 7], [1], undefined],
    ['lc depends on the load', 'lc', 0, [1, 1], [null, null], 'load'],
    ['an unknown scheduler too', 'mine', 0, [1, 1], [null, null], 'load'],
    ['mh has one for each client', 'mh', FLAG_SCHED_1, [1, 3], [0.25, 0.75], 'client'],
    ['sh with fallback avoids weight 0', 'sh', FLAG_SCHED_1, [1, 0, 1], [0.5, 0.5], 'client', 0],
    ['sh without fallback refuses some clients', 'sh', 0, [2, 0, 1], [0.5, 0.25], 'client', 0.25],
    ['fo has one for all', 'fo', 0, [1, 5, 2], [1], undefined],
    ['dh has one for each address', 'dh', 0, [1, 1], [null, null], 'same'],
    ['nobody without real servers', 'rr', 0, [], [], undefined, 1],
    ['nobody with weight 0 only', 'wrr', 0, [0, 0], [], undefined, 1],
    ['nobody with weight 0 only, by sh', 'sh', 0, [0], [], 'client', 1],
  ]
  for (const [what, scheduler, flags, weights, shares, choice, nobody = 0] of rows)
    it(what, () => {
      const found = schedule({ scheduler, flags }, servers(...weights))
      assert.deepEqual(
        found.servers.map(({ share }) => share),
        shares,
      )
      assert.deepEqual([found.choice, found.nobody], [choice, nobody])
    })
})

describe('the table of schedulers', () => {
  /** Each paragraph is one line. */
  const text = readFileSync(new URL('../../docs/annotations.md', import.meta.url), 'utf8').replaceAll(
    /(\S)\n(?=\S)/g,
    '$1 ',
  )
  /** The names in backticks of a sentence. */
  const namesIn = (sentence: RegExp): string[] =>
    Array.from(sentence.exec(text)?.[0].matchAll(/`(\w+)`/g) ?? [], ([, name = '']) => name)

  it('has the schedulers that the document names, with what it says of their weights', () => {
    assert.deepEqual(namesIn(/Allowed are `rr`[^.]*\./), SCHEDULERS)
    const weighted = SCHEDULERS.filter((name) => schedulerTraits(name).weight !== 'none')
    assert.deepEqual(namesIn(/The schedulers [^.]* use weights/), weighted)
    const gradual = SCHEDULERS.filter((name) => schedulerTraits(name).weight === 'share')
    assert.deepEqual(namesIn(/It works with [^.]*\./), gradual)
  })

  it('takes a scheduler that it does not know to choose by load, without weights and flags', () =>
    assert.deepEqual(schedulerTraits('mine'), { choice: 'load', weight: 'none' }))
})
