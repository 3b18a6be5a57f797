import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { RangeChains } from '../../../../src/modes/ipvs/nftables-firewall/range-chains.ts'
import type { AddressFrontend } from '../../../../src/service/frontends.ts'
import { parseCidrs } from '../../../../src/values/cidr.ts'
import { frontendOf } from '../../../support/frontends.ts'

const at = (address: string, port: number, ranges: readonly string[], allowsNode = false): AddressFrontend =>
  frontendOf({ roles: ['LoadBalancerVip'], address, port, firewall: { ranges: parseCidrs(ranges), allowsNode } })
const CHAIN = 'ip chain ranges-demo/web'

/** The changes of setting a frontend: keys, with the sources of a chain. */
function set(all: RangeChains, key: string, frontend: AddressFrontend | undefined): readonly string[] {
  return all.set(key, frontend).map(({ key: changed, item }) => {
    if (item === undefined) return `- ${changed}`
    const [first] = item.kind === 'chain' ? (item.rules[0]?.statements ?? []) : []
    return first?.kind === 'networks' ? `${changed}: ${first.cidrs.join(' ')}` : changed
  })
}

describe('RangeChains', () => {
  const one = at('203.0.113.1', 80, ['192.0.2.0/24', '192.0.2.7/32', '10.0.0.1/32'])
  const element = 'ip element source-ranges 203.0.113.1 . tcp . 80'

  it('makes a chain of distinct networks before the element that leads there, and removes both', () => {
    const all = new RangeChains()
    assert.deepEqual(set(all, one.key, one), [`${CHAIN}: 10.0.0.1 192.0.2.0/24`, element])
    assert.deepEqual(set(all, one.key, one), [])
    assert.equal(all.of(one.key)?.elementKey, element)
    assert.deepEqual(set(all, one.key, undefined), [`- ${CHAIN}`, `- ${element}`])
    assert.equal(all.of(one.key), undefined)
  })

  it('lets the node connect from each address of a Service that permits it', () => {
    const all = new RangeChains()
    const first = at('203.0.113.1', 80, ['192.0.2.0/24'], true)
    const second = at('203.0.113.2', 80, ['192.0.2.0/24'], true)
    set(all, first.key, first)
    const [chain] = set(all, second.key, second)
    assert.equal(chain, `${CHAIN}: 192.0.2.0/24 203.0.113.1 203.0.113.2`)
    const more = at('203.0.113.2', 81, ['192.0.2.0/24'], true)
    assert.deepEqual(set(all, more.key, more), ['ip element source-ranges 203.0.113.2 . tcp . 81'])
    assert.deepEqual(set(all, more.key, undefined), ['- ip element source-ranges 203.0.113.2 . tcp . 81'])
    assert.equal(set(all, second.key, undefined)[0], `${CHAIN}: 192.0.2.0/24 203.0.113.1`)
  })

  it('withdraws a frontend that has no ranges any more', () => {
    const all = new RangeChains()
    set(all, one.key, one)
    const free = frontendOf({ roles: ['LoadBalancerVip'], address: '203.0.113.1' })
    assert.deepEqual(set(all, one.key, free), [`- ${CHAIN}`, `- ${element}`])
  })
})
