import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { jsonSize } from '../../src/doctor/json-size.ts'

test('jsonSize counts what is outside of texts', () => {
  assert.deepEqual(jsonSize('{"a":[1,2,{"b":"},[\\",\\\\"}]}'), { depth: 3, values: 5 })
  assert.deepEqual(jsonSize('"'), { depth: 0, values: 0 })
  assert.deepEqual(jsonSize(']]]['), { depth: 0, values: 1 })
})

test('jsonSize counts at least every object and list, and all but one of their values', () => {
  const count = (value: unknown): number =>
    typeof value === 'object' && value !== null
      ? Object.values(value).reduce<number>((sum, one) => sum + count(one), Math.max(1, Object.values(value).length))
      : 0
  const depth = (value: unknown): number =>
    typeof value === 'object' && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depth)) : 0
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const size = jsonSize(JSON.stringify(value))
      assert.equal(size.depth, depth(value))
      assert.equal(size.values, count(value))
    }),
  )
})
