import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { textWithoutManagedFields } from '../../../src/watch/api/managed-fields.ts'

const parsed = (object: unknown): unknown => JSON.parse(textWithoutManagedFields(Buffer.from(JSON.stringify(object))))

/** Texts with what could be taken for the end of managedFields. */
const nasty = fc.oneof(
  fc.constantFrom(']},"spec":', ']},\\"spec\\":', '"]},', ',"managedFields":[', ']},"addressType":"IPv4"', '\\', '"'),
  fc.string(),
)
const managedFields = fc.array(
  fc.record(
    { manager: nasty, fieldsV1: fc.dictionary(nasty, fc.dictionary(nasty, fc.constant({}))) },
    { noNullPrototype: true },
  ),
)

describe('textWithoutManagedFields', () => {
  it('leaves every other field of a Service and of a slice as it was', () => {
    fc.assert(
      fc.property(managedFields, nasty, nasty, fc.boolean(), (fields, name, value, isSlice) => {
        const rest = isSlice
          ? { addressType: 'IPv4', endpoints: [{ note: value }] }
          : { spec: { note: value, deep: [{ x: 1 }] } }
        const metadata = { name, annotations: { note: value } }
        const event = {
          type: 'ADDED',
          object: { kind: 'X', metadata: { ...metadata, managedFields: fields }, ...rest },
        }
        assert.deepEqual(parsed(event), { type: 'ADDED', object: { kind: 'X', metadata, ...rest } })
      }),
      { numRuns: 500 },
    )
  })

  it('leaves an object whole that has no managedFields, or another order', () => {
    const objects = [
      { metadata: { name: 'a' }, spec: {} },
      { spec: {}, metadata: { name: 'a', managedFields: [{ fieldsV1: { 'f:spec': {} } }] } },
      { metadata: { managedFields: [{}], name: 'a' }, status: {} },
    ]
    for (const object of objects) assert.deepEqual(parsed(object), object)
  })
})
