/** Keys that failed, and the counts that health reads from them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type FailedKey, FailedKeys } from '../../src/sync/failed-keys.ts'
import { CodedError } from '../../src/values/errors.ts'

const fault = (code: string): Error => new CodedError(code, code)
const REFUSED: FailedKey = { attempts: 1, error: fault('EINVAL'), isWanted: true }
const FORBIDDEN: FailedKey = { attempts: 1, error: fault('EPERM'), isWanted: false }

test('FailedKeys counts what is wanted and what is the fault of the table', () => {
  const failed = new FailedKeys()
  failed.set('a', REFUSED)
  failed.set('b', FORBIDDEN)
  assert.deepEqual([failed.wanted, failed.faultsOfTable], [1, 1])
  failed.set('a', { ...FORBIDDEN, attempts: 2 })
  assert.deepEqual([failed.wanted, failed.faultsOfTable, failed.get('a')?.attempts], [0, 2, 2])
  failed.delete('b')
  failed.delete('never there')
  assert.deepEqual([failed.wanted, failed.faultsOfTable, failed.has('b')], [0, 1, false])
})

test('FailedKeys has the counts that a look at every key finds, after any sequence of changes', () => {
  const change = fc.tuple(fc.constantFrom('a', 'b', 'c', 'd'), fc.constantFrom(REFUSED, FORBIDDEN, undefined))
  fc.assert(
    fc.property(fc.array(change), (changes) => {
      const failed = new FailedKeys()
      for (const [key, value] of changes) {
        if (value === undefined) failed.delete(key)
        else failed.set(key, value)
      }
      const all = Array.from(failed.entries(), ([, one]) => one)
      assert.equal(failed.wanted, all.filter(({ isWanted }) => isWanted).length)
      assert.equal(failed.faultsOfTable, all.filter((one) => one === FORBIDDEN).length)
    }),
  )
})
