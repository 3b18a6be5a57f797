import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CHAINS, type LayoutInput, layoutOf, SETS } from '../../../../src/modes/ipvs/nftables-firewall/layout.ts'
import { WantedLayout } from '../../../../src/modes/ipvs/nftables-firewall/wanted-layout.ts'
import { nftKey, type NftRule } from '../../../../src/nftables/types.ts'
import { parseCidr } from '../../../../src/values/cidr.ts'

const cidr = (text: string) => {
  const found = parseCidr(text)
  assert.ok(found !== undefined)
  return { kind: 'cidr', cidr: found } as const
}
const input = (change: Partial<LayoutInput> = {}): LayoutInput => ({
  family: 'IPv4',
  isOwned: false,
  localTraffic: cidr('10.244.0.0/16'),
  masqueradeAll: false,
  masqueradeBit: 14,
  takesAll: true,
  refuses: true,
  ...change,
})

function rulesOf(chain: string, change: Partial<LayoutInput> = {}): readonly NftRule[] {
  const item = layoutOf(input(change)).find((one) => one.kind === 'chain' && one.name === chain)
  assert.ok(item?.kind === 'chain')
  return item.rules
}
/** Each rule in short: what it matches, then where it leads. */
const short = (rules: readonly NftRule[]): readonly string[] =>
  rules.map(({ statements }) =>
    statements
      .map((one) => {
        switch (one.kind) {
          case 'network':
            return one.cidr
          case 'interface':
            return one.name
          case 'lookup':
            return `${one.fields.join('.')}@${one.set}`
          case 'verdict':
            return 'chain' in one.action ? `${one.action.kind} ${one.action.chain}` : one.action.kind
          default:
            return one.kind
        }
      })
      .join(' '),
  )

describe('the layout', () => {
  it('has each item after what it names, and each key once', () => {
    for (const family of ['IPv4', 'IPv6'] as const) {
      const before = new Set<string>()
      for (const item of layoutOf(input({ family }))) {
        assert.ok(!before.has(nftKey(item)))
        before.add(nftKey(item))
        if (item.kind !== 'chain') continue
        for (const { statements } of item.rules)
          for (const one of statements) {
            const set = one.kind === 'lookup' ? one.set : one.kind === 'verdict-map' ? one.map : undefined
            if (set !== undefined) {
              assert.ok(Object.hasOwn(SETS, set))
              assert.ok(Array.from(before).some((key) => key.endsWith(` set ${set}`)))
            }
            if (one.kind === 'verdict' && 'chain' in one.action) {
              const { chain } = one.action
              assert.ok(
                Array.from(before).some((key) => key.endsWith(` chain ${chain}`)),
                chain,
              )
            }
          }
      }
    }
  })

  it('looks a frontend up in the fields that its sets have', () => {
    for (const item of layoutOf(input()))
      if (item.kind === 'chain')
        for (const { statements } of item.rules)
          for (const one of statements)
            if (one.kind === 'lookup' && one.fields.join() !== 'saddr')
              assert.deepEqual(one.fields, Object.entries(SETS).find(([name]) => name === one.set)?.[1])
  })

  it('masquerades traffic to cluster IPs as the detector says', () => {
    const { clusterIp } = CHAINS
    const all = 'goto mark-for-masquerade'
    const none = 'goto keep-destination'
    const rows: readonly (readonly [Partial<LayoutInput>, readonly string[]])[] = [
      [{}, [`10.244.0.0/16 ${none}`, all]],
      [{ masqueradeAll: true }, [all]],
      [{ masqueradeAll: true, localTraffic: undefined }, [all]],
      [{ localTraffic: undefined }, [`saddr@virtual-ips ${all}`, none]],
      [{ localTraffic: cidr('0.0.0.0/0') }, [none]],
      [{ localTraffic: cidr('10.0.0.7/32') }, [`10.0.0.7 ${none}`, all]],
      [{ localTraffic: { kind: 'interface', name: 'cni0' } }, [`cni0 ${none}`, all]],
      [{ localTraffic: { kind: 'interface-prefix', prefix: 'veth' } }, [`veth* ${none}`, all]],
    ]
    for (const [change, expected] of rows) assert.deepEqual(short(rulesOf(clusterIp, change)), expected)
  })

  it('uses the configured bit, also the highest one', () => {
    const marks = (masqueradeBit: number) =>
      layoutOf(input({ masqueradeBit })).flatMap((item) =>
        item.kind === 'chain'
          ? item.rules.flatMap(({ statements }) => statements.flatMap((one) => ('mask' in one ? [one.mask] : [])))
          : [],
      )
    assert.deepEqual(new Set(marks(14)), new Set([0x4000]))
    assert.deepEqual(new Set(marks(31)), new Set([0x80000000]))
  })

  it('leaves loopback alone, in both families', () => {
    assert.equal(short(rulesOf(CHAINS.services))[0], '127.0.0.0/8 return')
    assert.equal(short(rulesOf(CHAINS.services, { family: 'IPv6' }))[0], '::1 return')
  })
})

describe('WantedLayout', () => {
  const settings = {
    detectLocalMode: 'NodeCIDR',
    clusterCIDR: '',
    detectLocal: { bridgeInterface: '', interfaceNamePrefix: '' },
    iptables: { masqueradeAll: false, masqueradeBit: 14 },
  } as const
  const all = (): boolean => true
  const keys = (wanted: WantedLayout): readonly string[] => wanted.changes(all).map(({ key }) => key)

  it('returns everything once, and then only what changes', () => {
    const wanted = new WantedLayout(settings, ['IPv4', 'IPv6'])
    assert.equal(keys(wanted).length, 2 * layoutOf(input()).length)
    assert.deepEqual(keys(wanted), [])
    wanted.podCidrs(['10.250.0.0/24'])
    assert.deepEqual(keys(wanted), ['ip chain cluster-ip'])
    wanted.setPhase('IPv6', { refuses: true })
    assert.deepEqual(keys(wanted), ['ip6 chain filter-input'])
    wanted.setPhase('IPv4', { takesAll: true })
    assert.deepEqual(keys(wanted), ['ip chain keep-destination'])
    wanted.setOwned('IPv4', true)
    assert.deepEqual(keys(wanted), ['ip'])
  })

  it('keeps the changes of a family that is not asked for', () => {
    const wanted = new WantedLayout(settings, ['IPv4', 'IPv6'])
    assert.ok(wanted.changes((family) => family === 'IPv6').every(({ key }) => key.startsWith('ip6')))
    assert.ok(keys(wanted).every((key) => !key.startsWith('ip6')))
  })
})
