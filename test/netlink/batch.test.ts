import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { AttributeCursor } from '../../src/netlink/attributes.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import { hex, requests, toHex } from './wire.ts'

describe('MessageBatch', () => {
  it('begin and end write struct nlmsghdr with NLM_F_REQUEST', () => {
    const batch = new MessageBatch()
    batch.begin(0x17, 0x300, 'X').end()
    assert.equal(toHex(batch.bytes), toHex(hex('10000000 1700 0103 00000000 00000000')))
  })

  const attributes: readonly (readonly [string, (batch: MessageBatch) => void, string])[] = [
    ['u8', (b) => b.u8(8, 0x7f), '0500 0800 7f000000'],
    ['u16', (b) => b.u16(1, 0x0102), '0600 0100 02010000'],
    ['u16be', (b) => b.u16be(4, 443), '0600 0400 01bb0000'],
    ['u32', (b) => b.u32(5, 0xfffffffe), '0800 0500 feffffff'],
    ['u32be', (b) => b.u32be(9, 0xffffff00), '0800 0900 ffffff00'],
    ['u32Pair', (b) => b.u32Pair(7, 0x1b, 0xffffffff), '0c00 0700 1b000000 ffffffff'],
    ['string of 2', (b) => b.string(6, 'rr'), '0700 0600 72720000'],
    ['string of 3', (b) => b.string(6, 'wrr'), '0800 0600 77727200'],
    ['string of 0', (b) => b.string(6, ''), '0500 0600 00000000'],
    ['string beyond ASCII', (b) => b.string(6, 'ü'), '0700 0600 c3bc0000'],
    ['binary', (b) => b.binary(3, hex('0102030405')), '0900 0300 01020304 05000000'],
    ['written', (b) => b.written(3, 8, (v, into, at) => ((into[at] = v), 1), 9), '0c00 0300 09000000 00000000'],
    ['nest', (b) => b.endNest((b.u8(1, 1), b.nest(2))), '0500 0100 01000000 0400 0280'],
  ]
  for (const [name, put, expected] of attributes)
    it(`${name} writes all its bytes, even over earlier content of the buffer`, () => {
      const batch = new MessageBatch(16)
      for (let round = 0; round < 2; round++) {
        batch.begin(1, 0, 'X').binary(1, new Uint8Array(200).fill(0xee))
        batch.end()
        batch.reset()
        batch.begin(1, 0, 'X')
        put(batch)
        batch.end()
        assert.equal(toHex(batch.bytes.subarray(16)), toHex(hex(expected)))
      }
    })

  it('seal numbers the messages and asks for an ACK of the last only', () => {
    const batch = new MessageBatch()
    for (const type of [20, 21, 22]) {
      batch.begin(type, 0x400, 'X').string(1, 'abc')
      batch.end()
    }
    assert.deepEqual(requests(batch.seal(41, true)), [
      { type: 20, flags: 0x401, sequence: 41 },
      { type: 21, flags: 0x401, sequence: 42 },
      { type: 22, flags: 0x405, sequence: 43 },
    ])
    assert.deepEqual(
      requests(batch.seal(7, false)).map(({ flags, sequence }) => [flags, sequence]),
      [
        [0x401, 7],
        [0x401, 8],
        [0x401, 9],
      ],
    )
  })

  it('seal asks for the ACK of the message before one that the kernel never acknowledges', () => {
    const batch = new MessageBatch()
    for (const type of [20, 21]) batch.begin(type, 0, 'X').end()
    batch.begin(22, 0, 'X').endUnacknowledged()
    assert.equal(batch.lastAcknowledged, 1)
    assert.deepEqual(
      requests(batch.seal(1, true)).map(({ flags }) => flags),
      [1, 5, 1],
    )
    batch.reset()
    batch.begin(20, 0, 'X').end()
    assert.equal(batch.lastAcknowledged, 0)
  })

  it('begin drops a message that was not ended', () => {
    const batch = new MessageBatch()
    batch.begin(1, 0, 'FIRST').end()
    batch.begin(2, 0, 'BROKEN').u32(1, 1)
    assert.equal(batch.count, 1)
    assert.equal(batch.bytes.length, 16)
    batch.begin(3, 0, 'THIRD').end()
    assert.deepEqual(
      requests(batch.seal(1, false)).map(({ type }) => type),
      [1, 3],
    )
    assert.deepEqual([batch.operation(0), batch.operation(1)], ['FIRST', 'THIRD'])
  })

  it('retype changes the type of every message', () => {
    const batch = new MessageBatch()
    batch.begin(1, 0, 'X').string(1, 'abcd')
    batch.end()
    batch.begin(2, 0, 'X').end()
    batch.retype(0x1234)
    assert.deepEqual(
      requests(batch.seal(1, false)).map(({ type }) => type),
      [0x1234, 0x1234],
    )
  })

  it('values that do not fit into an attribute are refused', () => {
    const batch = new MessageBatch()
    batch.begin(1, 0, 'X')
    assert.throws(() => batch.binary(1, new Uint8Array(65_532)), { code: 'netlink-unencodable' })
    batch.binary(1, new Uint8Array(65_531))
    const nest = batch.nest(1)
    batch.binary(1, new Uint8Array(65_000))
    batch.binary(1, new Uint8Array(600))
    assert.throws(() => batch.endNest(nest), { code: 'netlink-unencodable' })
    assert.throws(() => batch.written(1, 2, () => 3, 0), { code: 'netlink-unencodable' })
  })

  it('AttributeCursor reads everything that it writes', () => {
    const value = fc.oneof(
      fc.record({
        kind: fc.constant('u32' as const),
        type: fc.integer({ min: 0, max: 0x3fff }),
        value: fc.integer({ min: 0, max: 0xffffffff }),
      }),
      fc.record({
        kind: fc.constant('u16be' as const),
        type: fc.integer({ min: 0, max: 0x3fff }),
        value: fc.integer({ min: 0, max: 0xffff }),
      }),
      fc.record({
        kind: fc.constant('string' as const),
        type: fc.integer({ min: 0, max: 0x3fff }),
        value: fc.string().filter((s) => !s.includes('\0')),
      }),
    )
    fc.assert(
      fc.property(fc.array(value), (values) => {
        const batch = new MessageBatch(1)
        batch.begin(1, 0, 'X')
        const nest = batch.nest(5)
        for (const each of values)
          if (each.kind === 'u32') batch.u32(each.type, each.value)
          else if (each.kind === 'u16be') batch.u16be(each.type, each.value)
          else batch.string(each.type, each.value)
        batch.endNest(nest)
        batch.end()
        const outer = new AttributeCursor(batch.bytes, 16, batch.bytes.length)
        assert.ok(outer.next())
        const inner = outer.nested()
        for (const each of values) {
          assert.ok(inner.next())
          assert.equal(inner.type, each.type)
          assert.equal(
            each.kind === 'u32' ? inner.u32() : each.kind === 'u16be' ? inner.u16be() : inner.string(),
            each.value,
          )
        }
        assert.equal(inner.next(), false)
        assert.equal(outer.next(), false)
      }),
    )
  })
})
