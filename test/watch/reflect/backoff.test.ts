import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Backoff } from '../../../src/watch/reflect/backoff.ts'

test('Backoff doubles from 0.8 s to 30 s', () => {
  const backoff = new Backoff({ random: () => 0 })
  assert.deepEqual(
    Array.from({ length: 8 }, () => backoff.next()),
    [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000],
  )
})

test('Backoff starts anew when told to', () => {
  const backoff = new Backoff({ random: () => 0 })
  backoff.next()
  backoff.next()
  backoff.reset()
  assert.equal(backoff.next(), 800)
})

test('Backoff stays between its step and twice that, and under its limit', () => {
  const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
  fc.assert(
    fc.property(fc.array(random, { minLength: 1, maxLength: 60 }), (numbers) => {
      let at = 0
      const backoff = new Backoff({ random: () => numbers[at++] ?? 0 })
      for (const index of numbers.keys()) {
        const delay = backoff.next()
        const step = Math.min(800 * 2 ** index, 30_000)
        assert.ok(delay >= step && delay <= Math.min(2 * step, 30_000), `${index}: ${delay}`)
      }
    }),
  )
})
