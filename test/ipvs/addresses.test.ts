import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { WantedAddresses } from '../../src/ipvs/addresses.ts'
import { addressOfKey } from '../../src/ipvs/types.ts'

describe('WantedAddresses', () => {
  it('wants an address from its first frontend to its last', () => {
    const wanted = new WantedAddresses()
    assert.deepEqual(wanted.set('[fd00::1]:80/tcp', true), { address: 'fd00::1', wanted: true })
    assert.equal(wanted.set('[fd00::1]:443/tcp', true), undefined)
    assert.equal(wanted.set('[fd00::1]:80/tcp', false), undefined)
    assert.deepEqual(wanted.set('[fd00::1]:443/tcp', false), { address: 'fd00::1', wanted: false })
    assert.equal(wanted.set('[fd00::1]:443/tcp', false), undefined)
  })

  it('agrees with a count of frontends by hand', () => {
    const key = fc.constantFrom('10.0.0.1:80/tcp', '10.0.0.1:80/udp', '10.0.0.1:443/tcp', '10.0.0.2:80/tcp')
    fc.assert(
      fc.property(fc.array(fc.tuple(key, fc.boolean())), (changes) => {
        const wanted = new WantedAddresses()
        const bound = new Set<string>()
        const addresses = new Set<string>()
        for (const [frontend, bind] of changes) {
          const change = wanted.set(frontend, bind)
          if (bind) bound.add(frontend)
          else bound.delete(frontend)
          if (change?.wanted === true) addresses.add(change.address)
          if (change?.wanted === false) addresses.delete(change.address)
          assert.deepEqual(addresses, new Set([...bound].map(addressOfKey)))
        }
      }),
    )
  })
})
