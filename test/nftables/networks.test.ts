/** Networks as intervals, and the one list of networks that a set of addresses has. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { canonicalNetwork, canonicalNetworks, intervalsOf } from '../../src/nftables/networks.ts'
import { contains, parseCidr } from '../../src/values/cidr.ts'
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

  it('have the same addresses afterwards, in intervals that do not touch', () => {
    fc.assert(
      fc.property(
        fc.array(someNetwork('IPv4'), { minLength: 1, maxLength: 6 }),
        someAddress('IPv4'),
        (texts, address) => {
          const has = (list: readonly string[]): boolean =>
            list.some((text) => {
              const cidr = parseCidr(text.includes('/') ? text : `${text}/32`)
              return cidr !== undefined && contains(cidr, address)
            })
          const canonical = canonicalNetworks(texts, 'IPv4')
          assert.equal(has(canonical), has(texts))
          assert.deepEqual(canonicalNetworks(canonical.toReversed(), 'IPv4'), canonical)
          const intervals = intervalsOf(texts, 'IPv4')
          for (const [index, { from, to }] of intervals.entries()) {
            assert.ok(from < to)
            assert.ok(index === 0 || (intervals[index - 1]?.to ?? 0n) < from)
          }
        },
      ),
    )
  })
})
