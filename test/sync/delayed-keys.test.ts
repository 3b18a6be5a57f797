import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { DelayedKeys } from '../../src/sync/delayed-keys.ts'

test('DelayedKeys agrees with a plain list of due times after any sequence', () => {
  const key = fc.constantFrom('a', 'b', 'c', 'd', 'e')
  const step = fc.record({
    kind: fc.constantFrom('add' as const, 'delete' as const, 'take' as const),
    key,
    waitMs: fc.constantFrom(500, 1000, 2000),
    limit: fc.integer({ min: 0, max: 3 }),
    laterMs: fc.integer({ min: 0, max: 700 }),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const delayed = new DelayedKeys()
      const model = new Map<string, number>()
      let nowMs = 0
      for (const { kind, key, waitMs, limit, laterMs } of steps) {
        nowMs += laterMs
        if (kind === 'add') {
          delayed.add(key, nowMs, waitMs)
          model.set(key, nowMs + waitMs)
        } else if (kind === 'delete') assert.equal(delayed.delete(key), model.delete(key))
        else {
          const taken = delayed.takeDue(nowMs, limit)
          const due = [...model.values()].filter((atMs) => atMs <= nowMs).sort((a, b) => a - b)
          assert.deepEqual(
            taken.map((one) => model.get(one)),
            due.slice(0, limit),
          )
          for (const one of taken) model.delete(one)
        }
        assert.equal(delayed.has(key), model.has(key))
        assert.equal(delayed.nextMs(), model.size === 0 ? undefined : Math.min(...model.values()))
      }
    }),
  )
})
