/**
 * Address ranges: a table for the text, and a comparison with ipaddr.js for membership, also at
 * prefix lengths that are no multiple of eight.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import { readAddress } from '../../src/values/address.ts'
import { contains, formatCidr, parseCidr } from '../../src/values/cidr.ts'

test('parseCidr reads what ParseCIDRSloppy reads', () => {
  const rows: [text: string, canonical: string | undefined][] = [
    ['10.0.0.0/8', '10.0.0.0/8'],
    ['10.1.2.3/8', '10.0.0.0/8'],
    ['10.1.2.3/32', '10.1.2.3/32'],
    ['10.1.2.255/25', '10.1.2.128/25'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['1.2.3.4/0', '0.0.0.0/0'],
    ['010.0.0.0/08', '10.0.0.0/8'],
    ['fd00::1/64', 'fd00::/64'],
    ['FD00:ABCD::/20', 'fd00:a000::/20'],
    ['::/0', '::/0'],
    ['fd00::1/128', 'fd00::1/128'],
    ['::ffff:10.1.2.3/104', '10.0.0.0/8'],
    ['10.0.0.0/33', undefined],
    ['fd00::/129', undefined],
    ['10.0.0.0/', undefined],
    ['10.0.0.0/-1', undefined],
    ['10.0.0.0/+8', undefined],
    ['10.0.0.0/8/8', undefined],
    ['10.0.0.0/8 ', undefined],
    ['10.0.0.0', undefined],
    ['10.0.0/8', undefined],
    ['fe80::1%eth0/64', undefined],
    ['', undefined],
    ['/8', undefined],
  ]
  for (const [text, canonical] of rows) {
    const cidr = parseCidr(text)
    assert.equal(cidr && formatCidr(cidr), canonical, JSON.stringify(text))
  }
})

const sized = (size: 4 | 16) => fc.uint8Array({ minLength: size, maxLength: size })

/** Two addresses that agree in their first bits, so that both results occur, and a prefix length. */
const pair = fc.constantFrom(4 as const, 16 as const).chain((size) =>
  fc.tuple(sized(size), fc.nat(size * 8 - 1), fc.nat(size * 8)).map(([bytes, flip, prefixLength]) => {
    const other = Uint8Array.from(bytes)
    other[flip >> 3] = (other[flip >> 3] ?? 0) ^ (0x80 >> (flip & 7))
    const family = size === 4 ? ('IPv4' as const) : ('IPv6' as const)
    return { family, a: readAddress(bytes, 0, family), b: readAddress(other, 0, family), flip, prefixLength }
  }),
)

test('contains agrees with ipaddr.js and with the bit in which two addresses differ', () => {
  fc.assert(
    fc.property(pair, ({ a, b, flip, prefixLength, family }) => {
      const cidr = parseCidr(`${a}/${prefixLength}`)
      assert.ok(cidr)
      if (cidr.family !== family) return // IPv4-mapped: in the table above
      assert.equal(contains(cidr, a), true)
      assert.equal(contains(cidr, cidr.address), true)
      assert.equal(contains(cidr, b), flip >= prefixLength)
      assert.equal(contains(cidr, b), ipaddr.parse(b).match(ipaddr.parse(a), prefixLength))
      assert.deepEqual(parseCidr(formatCidr(cidr)), cidr)
    }),
    { numRuns: 2000 },
  )
})

test('contains never matches across families', () => {
  const all4 = parseCidr('0.0.0.0/0')
  const all6 = parseCidr('::/0')
  assert.ok(all4 && all6)
  assert.equal(contains(all4, '::1'), false)
  assert.equal(contains(all6, '10.0.0.1'), false)
  assert.equal(contains(all6, '::ffff:10.0.0.1'), true)
})
