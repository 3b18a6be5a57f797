import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { FailedKeys, Repairs } from '../../src/sync/key-history.ts'
import { CodedError } from '../../src/values/errors.ts'

test('FailedKeys counts its keys correctly after any sequence', () => {
  const step = fc.record({
    key: fc.constantFrom('a', 'b', 'c'),
    code: fc.constantFrom('EINVAL', 'EPERM', ''),
    isWanted: fc.boolean(),
    isGone: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const failed = new FailedKeys()
      const model = new Map<string, { readonly code: string; readonly isWanted: boolean }>()
      for (const { key, code, isWanted, isGone } of steps) {
        if (isGone) {
          failed.delete(key)
          model.delete(key)
        } else {
          failed.set(key, { attempts: 1, error: code === '' ? new Error('x') : new CodedError(code, 'x'), isWanted })
          model.set(key, { code, isWanted })
        }
        const all = [...model.values()]
        assert.equal(failed.wantedCount, all.filter((one) => one.isWanted).length)
        assert.deepEqual([...failed.codes].sort(), [...new Set(all.map((one) => one.code).filter(Boolean))].sort())
        assert.deepEqual([...failed.entries()].map(([name]) => name).sort(), [...model.keys()].sort())
      }
    }),
  )
})

describe('Repairs', () => {
  it('admits three repairs of a key at once and makes each further one wait longer', () => {
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

  it('counts from one again after more than a minute without a repair', () => {
    const repairs = new Repairs()
    for (let time = 1; time <= 3; time++) assert.deepEqual(repairs.admit('a', 0), { times: time })
    assert.deepEqual(repairs.admit('a', 60_001), { times: 1 })
  })

  it('forgets keys that were repaired more than a minute ago', () => {
    const repairs = new Repairs()
    for (let index = 0; index < 10_000; index++) repairs.admit(`key ${index}`, index * 100)
    // One repair in 100 ms for a minute, and the last one.
    assert.equal(repairs.size, 601)
  })
})
