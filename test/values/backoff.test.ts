import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Backoff, backoffMs } from '../../src/values/backoff.ts'
import { seeded } from '../ipvs/estimator-model.ts'

const LIMITS = { firstMs: 800, maxMs: 30_000 }

test('Backoff doubles from the first wait to the longest', () => {
  const backoff = new Backoff(LIMITS)
  assert.deepEqual(
    Array.from({ length: 8 }, () => backoff.next()),
    [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000],
  )
})

test('Backoff returns the first wait again after a reset', () => {
  const backoff = new Backoff(LIMITS)
  backoff.next()
  backoff.next()
  backoff.reset()
  assert.equal(backoff.next(), 800)
})

test('Backoff with jitter stays between the plain wait and twice that', () => {
  const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
  fc.assert(
    fc.property(fc.array(random, { minLength: 1, maxLength: 60 }), (numbers) => {
      let at = 0
      const backoff = new Backoff(LIMITS, () => numbers[at++] ?? 0)
      for (const index of numbers.keys()) {
        const delay = backoff.next()
        const step = Math.min(800 * 2 ** index, 30_000)
        assert.ok(delay >= step && delay <= 2 * step, `${index}: ${delay}`)
      }
    }),
  )
})

test('Backoff spreads those that failed together, also after its longest wait', () => {
  const random = seeded(1)
  const NODES = 5000
  const OUTAGE_MS = 600_000
  const bySecond = new Map<number, number>()
  for (let node = 0; node < NODES; node++) {
    const backoff = new Backoff(LIMITS, random)
    let atMs = 0
    while (atMs < OUTAGE_MS) atMs += backoff.next()
    const second = Math.floor(atMs / 1000)
    bySecond.set(second, (bySecond.get(second) ?? 0) + 1)
  }
  // Waits of 30 to 60 s: in each of the first 30 seconds one of 45 asks.
  const busiest = Math.max(...bySecond.values())
  assert.ok(busiest < NODES * 0.03, `${busiest} of ${NODES} in one second`)
})

test('backoffMs counts failures from 1 and has no overflow', () => {
  const waits = [1, 2, 3, 6, 7, 5000].map((failures) => backoffMs(LIMITS, failures))
  assert.deepEqual(waits, [800, 1600, 3200, 25_600, 30_000, 30_000])
})
