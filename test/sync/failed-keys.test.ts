import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { FailedKeys } from '../../src/sync/failed-keys.ts'
import { CodedError } from '../../src/values/errors.ts'

test('FailedKeys counts what it holds through any sequence', () => {
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
