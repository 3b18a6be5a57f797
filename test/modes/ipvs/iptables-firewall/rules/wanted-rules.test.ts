/** What makes rules change, and what does not. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { localTrafficOf, type RuleSettings } from '../../../../../src/iptables/local-traffic.ts'
import { type RuleChange, WantedRules } from '../../../../../src/modes/ipvs/iptables-firewall/rules/wanted-rules.ts'
import type { AddressFrontend } from '../../../../../src/service/frontends.ts'
import type { NodeContext } from '../../../../../src/service/node-context.ts'
import { contributionOf } from '../../../../support/contribution.ts'
import { service } from '../../../../support/objects.ts'

const SETTINGS: RuleSettings = {
  detectLocalMode: 'ClusterCIDR',
  clusterCIDR: '10.244.0.0/16,fd00:10:244::/56',
  detectLocal: { bridgeInterface: 'cbr0', interfaceNamePrefix: 'veth' },
  iptables: { masqueradeAll: false, masqueradeBit: 14 },
}
const NODE: NodeContext = {
  nodeName: 'node0',
  zone: '',
  nodeIps: { IPv4: '10.0.2.15', IPv6: 'fd00:10:0:2::15' },
  localAddresses: new Set(),
  nodePortAddresses: { IPv4: [], IPv6: [] },
}

function frontendsOf(sourceRanges: readonly string[], nodeIps = NODE.nodeIps): readonly AddressFrontend[] {
  const web = service({
    clusterIps: { IPv4: '10.96.10.1', IPv6: 'fd00:10:96::1' },
    loadBalancerVips: ['203.0.113.10', '2001:db8:cb::10'],
    sourceRanges,
  })
  return [...contributionOf(web, [], { ...NODE, nodeIps }).frontends.values()]
}

const newRules = (): WantedRules => new WantedRules(SETTINGS, ['IPv4', 'IPv6'], true)
const keys = (changes: readonly RuleChange[]): readonly string[] => changes.map(({ family, key }) => `${family} ${key}`)

test('WantedRules returns everything once, then only what changed', () => {
  const rules = newRules()
  assert.equal(rules.changes().length, 40)
  assert.equal(rules.changes().length, 0)
  rules.setSize('KUBE-CLUSTER-IP', 1)
  assert.deepEqual(keys(rules.changes()), ['IPv4 nat KUBE-SERVICES'])
  rules.setSize('KUBE-CLUSTER-IP', 2)
  rules.setSize('KUBE-6-CLUSTER-IP', 0)
  assert.deepEqual(rules.changes(), [])
  rules.setSize('KUBE-IPVS-IPS', 1)
  assert.deepEqual(rules.changes(), [], 'no rule depends on it')
  rules.setSize('KUBE-CLUSTER-IP', 0)
  assert.deepEqual(keys(rules.changes()), ['IPv4 nat KUBE-SERVICES'])
})

test('WantedRules has rules only of the families that are served', () => {
  const rules = new WantedRules(SETTINGS, ['IPv6'], true)
  assert.ok(rules.changes().every(({ family }) => family === 'IPv6'))
})

test('WantedRules has a rule for each VIP that the node must not reach', () => {
  const rules = newRules()
  rules.changes()
  const become = (frontends: readonly AddressFrontend[]): void => {
    for (const frontend of frontends) rules.frontend(frontend.key, frontend)
  }
  become(frontendsOf([]))
  assert.deepEqual(rules.changes(), [])
  become(frontendsOf(['192.0.2.0/24']))
  const [change, more] = rules.changes()
  assert.equal(more, undefined)
  assert.ok(change?.item.kind === 'chain')
  assert.deepEqual(change.item.rules, ['-s 203.0.113.10/32 -m ipvs --vproto 6 --vaddr 203.0.113.10 --vport 80 -j DROP'])
  become(frontendsOf(['198.51.100.0/24']))
  assert.deepEqual(rules.changes(), [], 'other ranges, the same rule')
  become(frontendsOf(['192.0.2.0/24'], { IPv4: '192.0.2.7' }))
  assert.deepEqual(keys(rules.changes()), ['IPv4 filter KUBE-IPVS-OUT-FILTER'])
  become(frontendsOf(['192.0.2.0/24']))
  assert.deepEqual(keys(rules.changes()), ['IPv4 filter KUBE-IPVS-OUT-FILTER'])
  for (const { key } of frontendsOf([])) rules.frontend(key, undefined)
  assert.deepEqual(keys(rules.changes()), ['IPv4 filter KUBE-IPVS-OUT-FILTER'])
  for (const { key } of frontendsOf([])) rules.frontend(key, undefined)
  assert.deepEqual(rules.changes(), [])
})

test('WantedRules leaves out rules of a set that cannot be used', () => {
  const rules = newRules()
  rules.setSize('KUBE-LOOP-BACK', 1)
  rules.setUsable('KUBE-LOOP-BACK', true)
  rules.changes()
  rules.setUsable('KUBE-LOOP-BACK', false)
  rules.setUsable('KUBE-LOOP-BACK', false)
  const [change, more] = rules.changes()
  assert.ok(change?.key === 'nat KUBE-POSTROUTING' && more === undefined && change.item.kind === 'chain')
  assert.doesNotMatch(change.item.rules.join(), /LOOP-BACK/)
  assert.equal(change.item.rules.length, 3)
  rules.setUsable('KUBE-LOOP-BACK', true)
  assert.deepEqual(keys(rules.changes()), ['IPv4 nat KUBE-POSTROUTING'])
  rules.setUsable('KUBE-LOOP-BACK', true)
  assert.deepEqual(rules.changes(), [])
})

test('WantedRules leaves out rules of matches that the kernel lacks', () => {
  const rules = newRules()
  for (const frontend of frontendsOf(['192.0.2.0/24'])) rules.frontend(frontend.key, frontend)
  rules.changes()
  assert.deepEqual(rules.leftOut('IPv4'), [])
  rules.lacks('ipvs')
  assert.deepEqual(keys(rules.changes()), ['IPv4 filter KUBE-IPVS-OUT-FILTER'])
  assert.equal(rules.leftOut('IPv4').length, 1)
  rules.lacks('ipvs')
  assert.deepEqual(rules.changes(), [])
})

test('localTrafficOf takes the first CIDR of the family', () => {
  const cidr = (address: string, prefixLength: number, family: 'IPv4' | 'IPv6') => ({
    kind: 'cidr',
    cidr: { family, address, prefixLength },
  })
  const rows = [
    [{}, 'IPv4', cidr('10.244.0.0', 16, 'IPv4')],
    [{}, 'IPv6', cidr('fd00:10:244::', 56, 'IPv6')],
    [{ clusterCIDR: '10.1.2.3/16, 10.2.0.0/16' }, 'IPv4', cidr('10.1.0.0', 16, 'IPv4')],
    [{ clusterCIDR: '10.1.0.0/16' }, 'IPv6', undefined],
    [{ clusterCIDR: '' }, 'IPv4', undefined],
    [{ detectLocalMode: 'NodeCIDR' }, 'IPv6', cidr('fd00:10:244::', 64, 'IPv6')],
    [{ detectLocalMode: 'BridgeInterface' }, 'IPv6', { kind: 'interface', name: 'cbr0' }],
    [{ detectLocalMode: 'InterfaceNamePrefix' }, 'IPv4', { kind: 'interface-prefix', prefix: 'veth' }],
  ] as const
  for (const [change, family, expected] of rows)
    assert.deepEqual(
      localTrafficOf({ ...SETTINGS, ...change }, ['10.244.0.0/24', 'fd00:10:244::/64'], family),
      expected,
    )
})
