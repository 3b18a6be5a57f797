import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Repairs } from '../../src/sync/repairs.ts'

describe('Repairs', () => {
  it('admits three repairs of a key at once and makes the next ones wait longer and longer', () => {
    const repairs = new Repairs()
    let nowMs = 0
    const waits: number[] = []
    for (let repaired = 0; repaired < 12; ) {
      const admitted = repairs.admit('a', nowMs)
      if ('times' in admitted) assert.equal(admitted.times, ++repaired)
      else {
        waits.push(admitted.waitMs)
        nowMs += admitted.waitMs
      }
    }
    assert.deepEqual(waits, [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000, 30_000])
    assert.deepEqual(repairs.admit('b', nowMs), { times: 1 }, 'another key is not slowed down')
  })

  it('begins to count again when a key was left alone for more than a minute', () => {
    const repairs = new Repairs()
    for (let time = 1; time <= 3; time++) assert.deepEqual(repairs.admit('a', 0), { times: time })
    assert.deepEqual(repairs.admit('a', 60_001), { times: 1 })
  })

  it('forgets keys that were repaired more than a minute ago', () => {
    const repairs = new Repairs()
    for (let index = 0; index < 10_000; index++) repairs.admit(`key ${index}`, index * 100)
    // One in 100 ms for a minute, and the one that was just added.
    assert.equal(repairs.size, 601)
  })
})
