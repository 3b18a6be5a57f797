import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { distinctNetworks, networkText } from '../../../../src/modes/ipvs/nftables-firewall/networks.ts'
import { contains, formatCidr, parseCidr } from '../../../../src/values/cidr.ts'

describe('networks as nft prints them', () => {
  it('name one address without its length', () => {
    assert.deepEqual(['10.0.0.1/32', '10.0.0.0/8', '::1/128', 'fd00::/64'].map(networkText), [
      '10.0.0.1',
      '10.0.0.0/8',
      '::1',
      'fd00::/64',
    ])
  })

  it('are in the order of their addresses, without those inside another', () => {
    const texts = ['192.0.2.7', '10.1.0.0/16', '10.0.0.0/8', '192.0.2.7/32', '10.255.255.255', '9.0.0.0/31', '9.0.0.1']
    assert.deepEqual(distinctNetworks(texts), ['9.0.0.0/31', '10.0.0.0/8', '192.0.2.7'])
    assert.deepEqual(distinctNetworks(['fd00::2', 'fd00::/127', 'fd00::1']), ['fd00::/127', 'fd00::2'])
  })

  it('contain the same addresses as all of them together', () => {
    const address = fc.nat(0xff).map((last) => `10.0.0.${last}`)
    const network = fc.tuple(address, fc.integer({ min: 24, max: 32 })).map(([base, length]) => `${base}/${length}`)
    fc.assert(
      fc.property(fc.array(network, { maxLength: 12 }), address, (networks, probe) => {
        const all = networks.flatMap((text) => parseCidr(text) ?? [])
        const kept = distinctNetworks(all.map(formatCidr)).flatMap(
          (text) => parseCidr(text.includes('/') ? text : `${text}/32`) ?? [],
        )
        const within = (ranges: typeof all): number => ranges.filter((range) => contains(range, probe)).length
        assert.equal(within(kept), Math.min(1, within(all)))
      }),
    )
  })
})
