/** Deadlines say what took too long. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deadlineSignal } from '../../src/node/deadline.ts'
import { CodedError } from '../../src/values/errors.ts'

test('an operation that reaches its deadline fails with its name and the time', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const signal = deadlineSignal(60_000, 'opening the kernel')
  t.mock.timers.tick(59_999)
  assert.equal(signal.aborted, false)
  t.mock.timers.tick(1)
  assert.ok(signal.reason instanceof CodedError)
  assert.deepEqual(
    [signal.reason.code, signal.reason.message],
    ['deadline', 'opening the kernel took longer than 1m0s'],
  )
})
