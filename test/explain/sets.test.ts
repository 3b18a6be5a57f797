import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { PacketSet } from '../../src/explain/sets.ts'

test('a set of networks finds what a search through all of them finds', () => {
  const octet = fc.integer({ min: 0, max: 3 })
  const network = fc.record({ third: octet, length: fc.integer({ min: 20, max: 32 }), noMatch: fc.boolean() })
  fc.assert(
    fc.property(
      fc.uniqueArray(network, { selector: ({ third, length }) => `${third}/${length}` }),
      octet,
      (networks, third) => {
        const entries = networks.map(({ third: at, length, noMatch }) => ({
          entry: `10.0.0.1,tcp:80,10.0.${at}.0/${length}`,
          ...(noMatch ? { noMatch: true as const } : {}),
        }))
        const set = new PacketSet('hash:ip,port,net', entries)
        const found = set.find('dst,dst,src', {
          source: `10.0.${third}.0`,
          destination: '10.0.0.1',
          protocol: 'tcp',
          sourcePort: undefined,
          port: 80,
        })
        const covers = ({ third: at, length }: (typeof networks)[number]): boolean =>
          length >= 24 ? at === third : at >> (24 - length) === third >> (24 - length)
        const longest = Math.max(-1, ...networks.filter(covers).map(({ length }) => length))
        const best = networks.filter((one) => covers(one) && one.length === longest)
        if (best.length === 0) assert.equal(found, undefined)
        // Networks with host bits are one network to the kernel, which has each only once.
        else if (best.length === 1) assert.equal(found !== undefined, best[0]?.noMatch === false)
      },
    ),
  )
})
