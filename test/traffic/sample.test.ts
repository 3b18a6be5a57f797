import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  addTraffic,
  hasCounted,
  type PlaceSample,
  ratesBetween,
  type Sample,
  unknownTraffic,
} from '../../src/traffic/sample.ts'
import { place, realServer, sample } from './samples.ts'

const trafficOf = (rates: Sample, key = 'A'): number[] => [...(rates.places.get(key)?.traffic ?? [])]

test('ratesBetween divides the growth of each counter by the time between the reads', () => {
  const before = sample(1000, { A: place([10, 100, 200, 3000, 4000]) })
  const after = sample(3000, { A: place([14, 120, 260, 3000, 5000]) })
  const rates = ratesBetween(before, after)
  assert.equal(rates.seconds, 2)
  assert.deepEqual(trafficOf(rates), [2, 10, 30, 0, 500])
})

test('ratesBetween counts from 0 after a counter was set to 0', () => {
  const before = sample(0, { A: place([10, 100, 200, 3000, 4000]) })
  const after = sample(2000, { A: place([2, 120, 8, 40, 80]) })
  assert.deepEqual(trafficOf(ratesBetween(before, after)), [1, 60, 4, 20, 40])
})

test('ratesBetween leaves unknown what only one read found, and drops what has gone', () => {
  const before = sample(0, {
    gone: place([1, 1, 1, 1, 1]),
    A: place([1, 1, 1, 1, 1], { s: realServer([1, 1, 1, 1, 1]) }),
  })
  const servers = { s: realServer([3, 3, 3, 3, 3], { active: 7 }), t: realServer([9, 9, 9, 9, 9]) }
  const rates = ratesBetween(before, sample(1000, { A: place([1, 1, 1, 1, 1], servers), B: place([5, 5, 5, 5, 5]) }))
  assert.deepEqual([...rates.places.keys()], ['A', 'B'])
  assert.deepEqual(trafficOf(rates, 'B'), [NaN, NaN, NaN, NaN, NaN])
  const found = rates.places.get('A')?.realServers
  assert.deepEqual([...(found?.get('s')?.traffic ?? [])], [2, 2, 2, 2, 2])
  assert.equal(found?.get('s')?.active, 7)
  assert.deepEqual([...(found?.get('t')?.traffic ?? [])], [NaN, NaN, NaN, NaN, NaN])
})

test('ratesBetween keeps unknown counters unknown', () => {
  const unknown = (connections: number): PlaceSample => place([connections, NaN, NaN, NaN, NaN])
  const rates = ratesBetween(sample(0, { A: unknown(5) }), sample(1000, { A: unknown(6) }))
  assert.deepEqual(trafficOf(rates), [1, NaN, NaN, NaN, NaN])
})

test('addTraffic takes what is known of either', () => {
  const sum = unknownTraffic()
  addTraffic(sum, Float64Array.of(1, NaN, 3, NaN, 5))
  addTraffic(sum, Float64Array.of(NaN, NaN, 1, 2, 1))
  assert.deepEqual([...sum], [1, NaN, 4, 2, 6])
  assert.equal(hasCounted(Float64Array.of(0, 0, 0, 0, 0)), false)
  assert.equal(hasCounted(Float64Array.of(0, 1, 0, 0, 0)), true)
})
