import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { message } from '../../../src/watch/api/protobuf-message.ts'
import { ProtobufReader, Span } from '../../../src/watch/api/protobuf.ts'

const INNER = message({ a: [1, 'int'], b: [2, 'text'] }, (v) => ({ a: v[0], b: v[1] }))
const OUTER = message(
  {
    number: [1, 'int'],
    flag: [2, 'bool'],
    text: [3, 'text'],
    word: [4, 'word'],
    time: [5, 'time'],
    inner: [6, INNER],
    texts: [7, 'text', 'repeated'],
    inners: [8, INNER, 'repeated'],
    labels: [9, { keys: ['yes', 'also'] }],
    far: [2000, 'text'],
    span: [10, 'span'],
    long: [11, 'long'],
  },
  (v) => ({
    number: v[0],
    flag: v[1],
    text: v[2],
    word: v[3],
    time: v[4],
    inner: v[5],
    texts: v[6],
    inners: v[7],
    labels: v[8],
    far: v[9],
    span: v[10],
    long: v[11],
  }),
)

/** Reads bytes in hexadecimal, with other bytes around them. The result has only the fields that are present. */
function read(hex: string, reader = new ProtobufReader()): Record<string, unknown> {
  const bytes = Buffer.from(hex.replaceAll(/\s/g, ''), 'hex')
  const around = Buffer.concat([Buffer.from([0xff, 0x0a]), bytes, Buffer.from([0x01, 0x41, 0x41])])
  const object = reader.read(OUTER, around, 2, 2 + bytes.length)
  around.fill(0)
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined))
}

const hexOf = (text: string): string => Buffer.from(text).toString('hex')

/** A varint as the specification defines it: 64 bits, two's complement, seven bits per byte. */
function varint(value: bigint): string {
  let rest = BigInt.asUintN(64, value)
  let hex = ''
  do {
    const low = rest & 0x7fn
    rest >>= 7n
    hex += (low | (rest > 0n ? 0x80n : 0n)).toString(16).padStart(2, '0')
  } while (rest > 0n)
  return hex
}

describe('ProtobufReader.read', () => {
  for (const [hex, expected] of [
    ['', {}],
    ['08 00', { number: 0 }],
    ['08 96 01', { number: 150 }],
    ['08 96 81 80 80 00', { number: 150 }],
    ['08 ff ff ff ff ff ff ff ff ff 01', { number: -1 }],
    ['08 80 80 80 80 f8 ff ff ff ff 01', { number: -(2 ** 31) }],
    ['08 ff ff ff ff 07', { number: 2 ** 31 - 1 }],
    ['08 01 08 02', { number: 2 }],
    ['10 01', { flag: true }],
    ['10 00', { flag: false }],
    ['10 80 80 80 80 80 80 80 80 80 01', { flag: true }],
    ['1a 00', { text: '' }],
    [`1a 09 ${hexOf('größe ')}41`, { text: 'größe A' }],
    ['1a 02 ff fe', { text: '\ufffd\ufffd' }],
    ['22 02 c3 a9', { word: 'é' }],
    ['2a 00', { time: null }],
    ['2a 08 08 80 e2 cf aa 06 10 05', { time: new Date(1_700_000_000_000) }],
    ['2a 02 10 05', { time: new Date(0) }],
    ['2a 0b 08 ff ff ff ff ff ff ff ff ff 01', { time: new Date(-1000) }],
    ['32 00', { inner: { a: undefined, b: undefined } }],
    ['32 05 08 07 12 01 41', { inner: { a: 7, b: 'A' } }],
    ['3a 01 41 08 01 3a 01 42', { number: 1, texts: ['A', 'B'] }],
    [
      '42 00 42 02 08 01',
      {
        inners: [
          { a: undefined, b: undefined },
          { a: 1, b: undefined },
        ],
      },
    ],
    [`4a 08 0a 03 ${hexOf('yes')} 12 01 41`, { labels: { yes: 'A' } }],
    [`4a 08 12 01 41 0a 03 ${hexOf('yes')}`, { labels: { yes: 'A' } }],
    [`4a 05 0a 03 ${hexOf('yes')}`, { labels: { yes: '' } }],
    [`4a 08 0a 03 ${hexOf('yet')} 12 01 41`, { labels: {} }],
    [`4a 05 0a 03 ${hexOf('yes')} 4a 09 0a 04 ${hexOf('also')} 12 01 42`, { labels: { yes: '', also: 'B' } }],
    ['82 7d 01 41', { far: 'A' }],
    ['08 01 52 03 41 42 43', { number: 1, span: new Span(6, 9) }],
    ['58 80 80 80 80 10', { long: 2 ** 32 }],
    ['58 ff ff ff ff ff ff ff 0f', { long: 2 ** 53 - 1 }],
    ['58 81 80 80 80 80 80 80 f0 ff 01', { long: -(2 ** 53) + 1 }],
    // Unknown fields of every wire type.
    ['78 05 79 01 02 03 04 05 06 07 08 7a 02 08 01 7d 01 02 03 04 08 01', { number: 1 }],
    ['f8 ff ff ff 0f 05 08 01', { number: 1 }],
  ] as const)
    it(`reads ${hex}`, () => assert.deepEqual(read(hex), expected))

  for (const [what, hex] of [
    ['a number that is cut off', '08'],
    ['a number that is cut off later', '08 96'],
    ['a number of eleven bytes', '08 80 80 80 80 80 80 80 80 80 80 01'],
    ['a number of more than 64 bits', '08 ff ff ff ff ff ff ff ff ff 02'],
    ['a number of more than 32 bits', '08 80 80 80 80 10'],
    ['a negative number of more than 32 bits', '08 ff ff ff ff f7 ff ff ff ff 01'],
    ['a tag that is cut off', '88'],
    ['field number zero', '02 00'],
    ['field number zero, not a length', '00 00'],
    ['a field number of more than 29 bits', '80 80 80 80 10 00'],
    ['a negative tag', 'fa ff ff ff ff ff ff ff ff 01 00'],
    ['a length that is cut off', '1a'],
    ['a length that is cut off later', '1a 80'],
    ['a length beyond the message', '1a 02 41'],
    ['a negative length', '1a ff ff ff ff ff ff ff ff ff 01'],
    ['a length of 2^53', '1a 80 80 80 80 80 80 80 10'],
    ['a length beyond an inner message', '32 02 12 01 41'],
    ['a length of an unknown field beyond the message', '7a 02 41'],
    ['an unknown field of eight bytes that is cut off', '79 01 02 03 04 05 06 07'],
    ['an unknown field of four bytes that is cut off', '7d 01 02 03'],
    ['a group', '7b 7c'],
    ['an end of a group', '7c'],
    ['wire type 6', '7e'],
    ['wire type 7', '7f'],
    ['text where a number belongs', '0a 01 41'],
    ['a number where text belongs', '18 01'],
    ['four bytes where a number belongs', '0d 01 02 03 04'],
    ['eight bytes where text belongs', '19 01 02 03 04 05 06 07 08'],
    ['a group where a message belongs', '33 34'],
    ['a map whose key is a number', '4a 02 08'],
    ['a message in two parts', '32 02 08 07 32 03 12 01 41'],
  ] as const)
    it(`refuses ${what}`, () =>
      assert.throws(() => read(hex), { code: 'api-bad-response', message: /^malformed protobuf: / }))

  it('reads any number of 32 bits', () => {
    fc.assert(fc.property(fc.integer(), (number) => assert.deepEqual(read(`08 ${varint(BigInt(number))}`), { number })))
  })

  it('reads any time in the range of Date', () => {
    fc.assert(
      fc.property(fc.integer({ min: -8.64e12, max: 8.64e12 }), (seconds) => {
        const hex = `08${varint(BigInt(seconds))}`
        const length = (hex.length / 2).toString(16).padStart(2, '0')
        assert.deepEqual(read(`2a ${length} ${hex}`), { time: new Date(seconds * 1000) })
      }),
    )
  })

  it('reads each of several words correctly', () => {
    const word = fc.oneof(
      fc.constantFrom('', 'TCP', 'TCQ', 'worker-1', 'worker-10', 'Ã©', 'é'),
      fc.string({ unit: 'binary', maxLength: 90 }),
    )
    const reader = new ProtobufReader()
    fc.assert(
      fc.property(fc.array(word), (words) => {
        for (const text of [...words, ...words]) {
          const bytes = hexOf(text.toWellFormed())
          assert.deepEqual(read(`22 ${varint(BigInt(bytes.length / 2))} ${bytes}`, reader), {
            word: text.toWellFormed(),
          })
        }
      }),
    )
  })
})

describe('message', () => {
  it('refuses a `make` whose members differ from the fields', () => {
    for (const make of [
      (v: readonly unknown[]) => ({ a: v[0] }),
      (v: readonly unknown[]) => ({ a: v[1], b: v[0] }),
      (v: readonly unknown[]) => ({ a: v[0], c: v[1] }),
      (v: readonly unknown[]) => ({ a: v[0], b: v[1], c: 1 }),
    ])
      assert.throws(() => message({ a: [1, 'int'], b: [2, 'text'] }, make), TypeError)
  })
})
