/** Which failures make a table of Services' items faulty, and so after some time the node unhealthy. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isTableFaulty } from '../../src/modes/table-health.ts'
import { FailedKeys } from '../../src/sync/key-history.ts'
import { CodedError } from '../../src/values/errors.ts'

/** Whether a table of a hundred wanted items is faulty when one of them has failed so. */
function isFaulty(code: string): boolean {
  const failures = new FailedKeys()
  failures.set('nat KUBE-SVC-A', { attempts: 1, error: new CodedError(code, 'why'), isWanted: true })
  return isTableFaulty({ failures, desiredCount: 100 })
}

describe('a table of which one item fails', () => {
  it('is not faulty when a Service can cause the failure', () => {
    for (const code of ['EINVAL', 'EPROTONOSUPPORT', 'iptables-restore-failed', 'iptables-unprintable'])
      assert.equal(isFaulty(code), false, code)
  })

  it('is faulty when the kernel does not answer, or answers nobody', () => {
    for (const code of ['EPERM', 'ENOMEM', 'netlink-timeout', 'device-missing'])
      assert.equal(isFaulty(code), true, code)
  })

  it('is faulty when the program that writes it does not run, does not end, or waits for a lock', () => {
    for (const code of ['program-missing', 'program-failed', 'program-timeout', 'program-output', 'iptables-locked'])
      assert.equal(isFaulty(code), true, code)
  })
})
