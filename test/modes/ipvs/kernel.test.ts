import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { explainMissingIpvs } from '../../../src/modes/ipvs/kernel.ts'
import { CodedError } from '../../../src/values/errors.ts'

describe('explainMissingIpvs', () => {
  it('names the module when the family is missing', () => {
    const explained = explainMissingIpvs(new CodedError('genl-family-missing', 'no family IPVS'))
    assert.ok(explained instanceof CodedError)
    assert.equal(explained.code, 'ipvs-missing')
    assert.match(explained.message, /modprobe ip_vs/)
  })

  it('leaves other errors as they are', () => {
    const other = new CodedError('EPERM', 'not allowed')
    assert.equal(explainMissingIpvs(other), other)
  })
})
