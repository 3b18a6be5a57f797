/**
 * Addresses as text and bytes: tables of accepted and refused texts, and a comparison with
 * ipaddr.js. It prints IPv4-mapped addresses differently from Go, so those are compared by bytes
 * only.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import {
  familyOf,
  formatEndpoint,
  isLinkLocal,
  isLoopback,
  parseAddress,
  parseAddressSloppy,
  parseEndpoint,
  readAddress,
  writeAddress,
} from '../../src/values/address.ts'

const ipv4Bytes = fc.uint8Array({ minLength: 4, maxLength: 4 })
/** Groups with many zeros, so that `::` is used. */
const ipv6Bytes = fc
  .array(fc.oneof(fc.constant(0), fc.constant(0), fc.constant(0xffff), fc.integer({ min: 0, max: 0xffff })), {
    minLength: 8,
    maxLength: 8,
  })
  .map((groups) => Uint8Array.from(groups.flatMap((group) => [group >> 8, group & 255])))
const anyBytes = fc.oneof(ipv4Bytes, ipv6Bytes)

function familyOfBytes(bytes: Uint8Array): 'IPv4' | 'IPv6' {
  return bytes.length === 4 ? 'IPv4' : 'IPv6'
}

test('parseAddress and parseAddressSloppy accept and refuse the same texts as Go', () => {
  const rows: [text: string, strict: string | undefined, sloppy: string | undefined][] = [
    ['1.2.3.4', '1.2.3.4', '1.2.3.4'],
    ['0.0.0.0', '0.0.0.0', '0.0.0.0'],
    ['255.255.255.255', '255.255.255.255', '255.255.255.255'],
    ['01.2.3.4', undefined, '1.2.3.4'],
    ['1.2.3.00', undefined, '1.2.3.0'],
    ['010.0000012.3.4', undefined, '10.12.3.4'],
    ['256.1.1.1', undefined, undefined],
    ['1.2.3', undefined, undefined],
    ['1.2.3.', undefined, undefined],
    ['.1.2.3', undefined, undefined],
    ['1..2.3', undefined, undefined],
    ['1.2.3.4.5', undefined, undefined],
    ['1.2.3.4 ', undefined, undefined],
    [' 1.2.3.4', undefined, undefined],
    ['1.2.3.-4', undefined, undefined],
    ['1.2.3.4/32', undefined, undefined],
    ['0x1.2.3.4', undefined, undefined],
    ['16909060', undefined, undefined],
    ['', undefined, undefined],
    ['web', undefined, undefined],
    ['::', '::', '::'],
    ['::1', '::1', '::1'],
    ['1::', '1::', '1::'],
    ['0:0:0:0:0:0:0:0', '::', '::'],
    ['FE80::ABCD', 'fe80::abcd', 'fe80::abcd'],
    ['2001:0db8::0001', '2001:db8::1', '2001:db8::1'],
    ['1:0:0:2:0:0:0:3', '1:0:0:2::3', '1:0:0:2::3'],
    ['1:0:0:4:5:0:0:8', '1::4:5:0:0:8', '1::4:5:0:0:8'],
    ['1:0:3:4:5:6:7:8', '1:0:3:4:5:6:7:8', '1:0:3:4:5:6:7:8'],
    ['1:2:3:4:5:6:7::', '1:2:3:4:5:6:7:0', '1:2:3:4:5:6:7:0'],
    ['::2:3:4:5:6:7:8', '0:2:3:4:5:6:7:8', '0:2:3:4:5:6:7:8'],
    ['1:2:3:4:5:6:0:0', '1:2:3:4:5:6::', '1:2:3:4:5:6::'],
    ['1:2:3:4:5:6:1.2.3.4', '1:2:3:4:5:6:102:304', '1:2:3:4:5:6:102:304'],
    ['64:ff9b::1.2.3.4', '64:ff9b::102:304', '64:ff9b::102:304'],
    ['::1.2.3.4', '::102:304', '::102:304'],
    ['::ffff:1.2.3.4', '::ffff:1.2.3.4', '1.2.3.4'],
    ['::FFFF:102:304', '::ffff:1.2.3.4', '1.2.3.4'],
    ['::ffff:01.2.3.4', undefined, '1.2.3.4'],
    ['::00001', undefined, '::1'],
    ['::12345', undefined, undefined],
    ['1::2:3:4:5:6:7:8', undefined, undefined],
    ['1:2:3:4:5:6:7:8::', undefined, undefined],
    ['1:2:3:4:5:6:7:8:', undefined, undefined],
    ['1:2:3:4:5:6:7:8:9', undefined, undefined],
    ['1:2:3:4:5:6:7', undefined, undefined],
    ['1:2:3:4:5:6:7:1.2.3.4', undefined, undefined],
    ['1:2:3:4:5:1.2.3.4', undefined, undefined],
    ['::1:2:3:4:5:6:1.2.3.4', undefined, undefined],
    ['::1:2:3:4:5:6:7:1.2.3.4', undefined, undefined],
    ['::1.2.3.4:5', undefined, undefined],
    ['1:2', undefined, undefined],
    [':', undefined, undefined],
    [':::', undefined, undefined],
    [':1::', undefined, undefined],
    ['1:', undefined, undefined],
    ['1::2::3', undefined, undefined],
    ['1:::2', undefined, undefined],
    ['fe80::1%eth0', undefined, undefined],
    ['[::1]', undefined, undefined],
    ['::g', undefined, undefined],
  ]
  for (const [text, strict, sloppy] of rows) {
    assert.equal(parseAddress(text), strict, `parseAddress ${JSON.stringify(text)}`)
    assert.equal(parseAddressSloppy(text), sloppy, `parseAddressSloppy ${JSON.stringify(text)}`)
  }
})

test('readAddress prints the same text as ipaddr.js, and parseAddress reads it', () => {
  fc.assert(
    fc.property(anyBytes, (bytes) => {
      const text = readAddress(bytes, 0, familyOfBytes(bytes))
      const oracle = ipaddr.fromByteArray(Array.from(bytes))
      const mapped = oracle instanceof ipaddr.IPv6 && oracle.isIPv4MappedAddress()
      if (oracle instanceof ipaddr.IPv6) {
        if (!mapped) assert.equal(text, oracle.toRFC5952String())
      } else assert.equal(text, oracle.toString())
      assert.equal(parseAddress(text), text)
      assert.equal(parseAddressSloppy(text), mapped ? text.slice('::ffff:'.length) : text)
      assert.equal(familyOf(text), familyOfBytes(bytes))
      assert.deepEqual(ipaddr.parse(text).toByteArray(), Array.from(bytes))
    }),
    { numRuns: 2000 },
  )
})

test('parseAddress accepts every spelling of an IPv6 address that ipaddr.js writes', () => {
  fc.assert(
    fc.property(ipv6Bytes, (bytes) => {
      const oracle = new ipaddr.IPv6(Array.from(bytes))
      const text = readAddress(bytes, 0, 'IPv6')
      for (const spelling of [
        oracle.toNormalizedString(),
        oracle.parts.map((part) => part.toString(16).padStart(4, '0')).join(':'),
        oracle.toString(),
      ]) {
        assert.equal(parseAddress(spelling.toUpperCase()), text)
      }
    }),
  )
})

test('parseAddress accepts nothing that ipaddr.js refuses', () => {
  const soup = fc.string({
    unit: fc.constantFrom('0', '1', '9', 'f', 'A', ':', '::', '.', '25', 'ffff'),
    maxLength: 14,
  })
  fc.assert(
    fc.property(soup, (text) => {
      const parsed = parseAddress(text)
      if (parsed !== undefined) assert.ok(ipaddr.isValid(text), text)
      assert.ok(parsed === undefined || parseAddressSloppy(text) !== undefined, 'sloppy takes all that strict takes')
    }),
    { numRuns: 5000 },
  )
})

test('writeAddress reverses readAddress and changes no other byte', () => {
  fc.assert(
    fc.property(anyBytes, fc.nat(5), (bytes, offset) => {
      const into = new Uint8Array(32).fill(0xaa)
      const padded = new Uint8Array(32)
      padded.set(bytes, offset)
      const text = readAddress(padded, offset, familyOfBytes(bytes))
      assert.equal(writeAddress(text, into, offset), bytes.length)
      const expected = new Uint8Array(32).fill(0xaa)
      expected.set(bytes, offset)
      assert.deepEqual(into, expected)
    }),
  )
})

test('writeAddress throws for text that is no address', () => {
  for (const text of ['', 'web', '1.2.3', '01.2.3.4', '1::2::3']) {
    assert.throws(() => writeAddress(text, new Uint8Array(16), 0), TypeError, text)
  }
})

test('isLoopback and isLinkLocal agree with ipaddr.js', () => {
  const near = fc.constantFrom('127.0.0.1', '127.9.8.7', '126.1.1.1', '128.0.0.1', '::1', '::', '::2', '169.254.3.4')
  const nearLinkLocal = fc.constantFrom(
    'fe80::1',
    'febf:ffff::',
    'fec0::1',
    'fe7f::1',
    'fe8::1',
    'fe9a::',
    '169.255.0.1',
  )
  const random = anyBytes.map((bytes) => readAddress(bytes, 0, familyOfBytes(bytes)))
  fc.assert(
    fc.property(fc.oneof(near, nearLinkLocal, random), (address) => {
      const range = ipaddr.process(address).range()
      assert.equal(isLoopback(address), range === 'loopback', `${address} ${range}`)
      assert.equal(isLinkLocal(address), range === 'linkLocal', `${address} ${range}`)
    }),
  )
})

test('formatEndpoint puts IPv6 in brackets', () => {
  assert.equal(formatEndpoint('10.0.0.1', 80), '10.0.0.1:80')
  assert.equal(formatEndpoint('fd00::1', 80), '[fd00::1]:80')
})

test('parseEndpoint reverses formatEndpoint', () => {
  fc.assert(
    fc.property(anyBytes, fc.nat(0xffff), (bytes, port) => {
      const address = readAddress(bytes, 0, familyOfBytes(bytes))
      assert.deepEqual(parseEndpoint(formatEndpoint(address, port)), { address, port })
    }),
  )
})
