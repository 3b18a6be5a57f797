/** Networks as intervals, and the one list of networks that a set of addresses has. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { canonicalNetwork, canonicalNetworks, intervalsOf, networksOf } from '../../src/nftables/networks.ts'
import { contains, parseCidr } from '../../src/values/cidr.ts'
import { IP_FAMILIES } from '../../src/values/protocol.ts'
import { someAddress, someNetwork } from './arbitraries.ts'

describe('networks', () => {
  it('have the texts that nft prints', () => {
    assert.equal(canonicalNetwork('10.1.2.3/8', 'IPv4'), '10.0.0.0/8')
    assert.equal(canonicalNetwork('192.0.2.7/32', 'IPv4'), '192.0.2.7')
    assert.equal(canonicalNetwork('FD00::1/128', 'IPv6'), 'fd00::1')
    for (const text of ['10.0.0.0/33', 'fd00::/8', 'x'])
      assert.throws(() => canonicalNetwork(text, 'IPv4'), { code: 'netlink-unencodable' })
  })

  it('that touch or are inside another are one', () => {
    assert.deepEqual(canonicalNetworks(['10.128.0.0/9', '10.0.0.0/9', '10.1.0.0/16'], 'IPv4'), ['10.0.0.0/8'])
    assert.deepEqual(canonicalNetworks(['10.0.0.1', '10.0.0.2', '10.0.0.3'], 'IPv4'), ['10.0.0.1', '10.0.0.2/31'])
    assert.deepEqual(canonicalNetworks(['::/1', '8000::/1'], 'IPv6'), ['::/0'])
  })

  it('that are the fewest already stay the same list', () => {
    const texts = canonicalNetworks(['10.128.0.0/9', '10.0.0.0/9'], 'IPv4')
    assert.equal(canonicalNetworks(texts, 'IPv4'), texts)
  })

  it('are the largest ones that an interval has, of every length', () => {
    for (let length = 1; length <= 128; length++) {
      const [network] = canonicalNetworks([`ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/${length}`], 'IPv6')
      const halves = intervalsOf([network ?? ''], 'IPv6').flatMap(({ from, to }) => {
        const middle = from + (to - from) / 2n
        return [
          { from, to: middle },
          { from: middle, to },
        ].filter((half) => half.from < half.to)
      })
      assert.deepEqual(networksOf(halves, 'IPv6'), [network])
      // Without its first address it is one network of each longer length.
      const [whole] = intervalsOf([network ?? ''], 'IPv6')
      const rest = whole === undefined || length === 128 ? [] : [{ from: whole.from + 1n, to: whole.to }]
      assert.equal(networksOf(rest, 'IPv6').length, 128 - length)
    }
  })

  for (const family of IP_FAMILIES)
    it(`have the same addresses afterwards, in intervals that do not touch: ${family}`, () => {
      const bits = family === 'IPv4' ? 32 : 128
      fc.assert(
        fc.property(
          fc.array(someNetwork(family), { minLength: 1, maxLength: 6 }),
          someAddress(family),
          (texts, address) => {
            const has = (list: readonly string[]): boolean =>
              list.some((text) => {
                const cidr = parseCidr(text.includes('/') ? text : `${text}/${bits}`)
                return cidr !== undefined && contains(cidr, address)
              })
            const canonical = canonicalNetworks(texts, family)
            assert.equal(has(canonical), has(texts))
            assert.deepEqual(canonicalNetworks(canonical.toReversed(), family), canonical)
            const intervals = intervalsOf(texts, family)
            for (const [index, { from, to }] of intervals.entries()) {
              assert.ok(from < to)
              assert.ok(index === 0 || (intervals[index - 1]?.to ?? 0n) < from)
            }
          },
        ),
      )
    })
})
