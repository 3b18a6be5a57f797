import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { AttributeCursor } from '../../src/netlink/attributes.ts'
import { CodedError } from '../../src/values/errors.ts'
import { hex } from './wire.ts'

function types(bytes: Uint8Array): number[] {
  const cursor = new AttributeCursor(bytes, 0, bytes.length)
  const found: number[] = []
  while (cursor.next()) found.push(cursor.type)
  return found
}

describe('AttributeCursor', () => {
  it('next removes the flag bits from the type', () => {
    assert.deepEqual(types(hex('0400 0180 0400 0240 0400 03c0')), [1, 2, 3])
  })

  it('next accepts a last attribute without its padding', () => {
    assert.deepEqual(types(hex('0500 0100 07')), [1])
  })

  const broken: readonly (readonly [string, string])[] = [
    ['one byte too many', '0400 0100 00'],
    ['three bytes too many', '0400 0100 000000'],
    ['length 0', '0000 0100'],
    ['length 3', '0300 0100'],
    ['length beyond the end', '0900 0100 00000000'],
  ]
  for (const [name, text] of broken)
    it(`next throws for ${name}`, () => {
      assert.throws(() => types(hex(text)), { code: 'netlink-malformed' })
    })

  it('numbers are read from the front of a longer payload and refused from a shorter one', () => {
    const cursor = new AttributeCursor(hex('0600 0100 01020000'), 0, 8)
    cursor.next()
    assert.equal(cursor.u8(), 1)
    assert.equal(cursor.u16(), 0x0201)
    assert.equal(cursor.u16be(), 0x0102)
    cursor.expect(2)
    for (const read of [() => cursor.u32(), () => cursor.u32be(), () => cursor.u64(), () => cursor.expect(3)])
      assert.throws(read, { code: 'netlink-malformed' })
  })

  it('string ends at its NUL or at the end of the attribute', () => {
    for (const [text, expected] of [
      ['0800 0100 72720000', 'rr'],
      ['0600 0100 72720000', 'rr'],
      ['0400 0100', ''],
    ] as const) {
      const cursor = new AttributeCursor(hex(text), 0, hex(text).length)
      cursor.next()
      assert.equal(cursor.string(), expected)
    }
  })

  it('nested stays inside its attribute', () => {
    // The inner attribute claims 8 bytes, its nest has only 4 of them.
    const cursor = new AttributeCursor(hex('0800 0180 0800 0200 0500 0300 01000000'), 0, 16)
    cursor.next()
    assert.throws(() => cursor.nested().next(), { code: 'netlink-malformed' })
  })

  it('ends or throws for any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        try {
          assert.ok(types(bytes).length <= bytes.length / 4 + 1)
        } catch (error) {
          assert.ok(error instanceof CodedError && error.code === 'netlink-malformed', String(error))
        }
      }),
      { numRuns: 1000 },
    )
  })
})
