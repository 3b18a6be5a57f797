import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { present } from '../../src/values/lists.ts'

describe('present', () => {
  it('leaves out what is not there, and keeps the order', () => {
    assert.deepEqual(present([undefined, 2, 0, undefined, 1]), [2, 0, 1])
    assert.deepEqual(present([undefined]), [])
  })

  it('returns the same list when nothing is missing', () => {
    const all = ['a', '']
    assert.equal(present(all), all)
  })
})
