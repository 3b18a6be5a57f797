/**
 * All rules as text, and what each input changes. `UPDATE_GOLDEN=1` writes the text again.
 */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { renderIpvsRules, type RuleInput } from '../../../../../src/modes/ipvs/iptables-firewall/rules/render.ts'
import { IPVS_LAYOUT } from '../../../../../src/modes/leftovers/layouts.ts'
import { IptablesTable } from '../../../../../src/iptables/table.ts'
import { reconciled } from '../../../../../src/sync/reconciled.ts'
import { Reconciler } from '../../../../../src/sync/reconciler.ts'
import { TableSync } from '../../../../../src/sync/table-sync.ts'
import { IP_FAMILIES, type IpFamily } from '../../../../../src/values/protocol.ts'
import { setName } from '../../../../../src/ipset/catalogue.ts'
import { MemoryIptables } from '../../../../iptables/memory-iptables.ts'
import { everything } from './wanted.ts'

function rulesOf(input: RuleInput, key: string): readonly string[] {
  const item = renderIpvsRules(input).items.get(key)
  assert.ok(item?.kind === 'chain')
  return item.rules
}

for (const family of IP_FAMILIES) {
  test(`renderIpvsRules with everything is the golden text of ${family}`, async () => {
    const file = `${import.meta.dirname}/everything-${family}.txt`
    const memory = new MemoryIptables()
    const sync = new TableSync(new IptablesTable(family, memory, IPVS_LAYOUT))
    for (const [key, item] of renderIpvsRules(everything(family)).items) sync.want(key, item)
    await new Reconciler([reconciled(sync)]).pass({ signal: AbortSignal.timeout(5000), now: () => 0, mayRemove: true })
    if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(file, memory.text())
    assert.equal(memory.text(), readFileSync(file, 'utf8'))
  })
}

test('renderIpvsRules cluster IP rule follows detector and masqueradeAll', () => {
  const comment = '-m comment --comment "Kubernetes service cluster ip + port for masquerade purpose"'
  const cidr = (family: IpFamily, address: string, prefixLength: number) =>
    ({ kind: 'cidr', cidr: { family, address, prefixLength } }) as const
  const both = '-m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ'
  const rows: readonly (readonly [change: Partial<RuleInput>, expected: string | undefined])[] = [
    [{ localTraffic: cidr('IPv4', '10.0.0.0', 8) }, `! -s 10.0.0.0/8 ${comment} ${both}`],
    [{ localTraffic: cidr('IPv4', '10.1.2.3', 32) }, `! -s 10.1.2.3/32 ${comment} ${both}`],
    [{ localTraffic: cidr('IPv4', '0.0.0.0', 0) }, undefined],
    [{ localTraffic: { kind: 'interface', name: 'cbr0' } }, `! -i cbr0 ${comment} ${both}`],
    [{ localTraffic: { kind: 'interface-prefix', prefix: 'veth' } }, `! -i veth+ ${comment} ${both}`],
    [{ localTraffic: undefined }, `${comment} -m set --match-set KUBE-CLUSTER-IP src,dst -j KUBE-MARK-MASQ`],
    [{ localTraffic: undefined, masqueradeAll: true }, `${comment} ${both}`],
    [{ masqueradeAll: true }, `${comment} ${both}`],
  ]
  for (const [change, expected] of rows) {
    const found = rulesOf(everything('IPv4', change), 'nat KUBE-SERVICES').filter(
      (rule) => rule.includes('KUBE-CLUSTER-IP') && rule.endsWith('KUBE-MARK-MASQ'),
    )
    assert.deepEqual(found, expected === undefined ? [] : [expected])
  }
})

test('renderIpvsRules marks with masqueradeBit', () => {
  for (const [bit, mark] of [
    [0, '0x1'],
    [14, '0x4000'],
    [31, '0x80000000'],
  ] as const) {
    const input = everything('IPv4', { masqueradeBit: bit, randomFully: false })
    assert.deepEqual(rulesOf(input, 'nat KUBE-MARK-MASQ'), [`-j MARK --set-xmark ${mark}/${mark}`])
    assert.deepEqual(rulesOf(input, 'nat KUBE-POSTROUTING').slice(1), [
      `-m mark ! --mark ${mark}/${mark} -j RETURN`,
      `-j MARK --set-xmark ${mark}/0x0`,
      '-m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE',
    ])
    assert.match(rulesOf(input, 'filter KUBE-FORWARD')[0] ?? '', new RegExp(`--mark ${mark}/${mark} -j ACCEPT`))
  }
})

test('renderIpvsRules leaves out rules with a missing match and returns them', () => {
  const missing = (...matches: ('ipvs' | 'physdev')[]) =>
    renderIpvsRules(everything('IPv4', { missingMatches: new Set(matches) }))
  const out = missing('ipvs')
  assert.equal(out.leftOut.length, 3)
  assert.ok(out.leftOut.every((rule) => rule.startsWith('-A KUBE-IPVS-OUT-FILTER ') && rule.includes('-m ipvs')))
  assert.equal(missing('physdev').leftOut.length, 2)
  assert.equal(missing('physdev', 'ipvs').leftOut.length, 5)
  assert.equal(missing().leftOut.length, 0)
  const item = out.items.get('filter KUBE-IPVS-OUT-FILTER')
  assert.ok(item?.kind === 'chain' && item.rules.length === 0)
})

test('renderIpvsRules without entries has only the rules that name no set', () => {
  const input = everything('IPv6', { filled: new Set(), outFilter: [] })
  const { items } = renderIpvsRules(input)
  assert.equal([...items.values()].filter(({ kind }) => kind === 'jump').length, 9)
  const count = (key: string): number => rulesOf(input, key).length
  assert.deepEqual(
    [...items.keys()].filter((key) => key.split(' ').length === 2).map((key) => [key, count(key)]),
    [
      ['nat KUBE-MARK-MASQ', 1],
      ['nat KUBE-NODE-PORT', 0],
      ['nat KUBE-LOAD-BALANCER', 1],
      ['nat KUBE-POSTROUTING', 3],
      ['nat KUBE-SERVICES', 2],
      ['filter KUBE-FORWARD', 2],
      ['filter KUBE-NODE-PORT', 1],
      ['filter KUBE-SOURCE-RANGES-FIREWALL', 1],
      ['filter KUBE-PROXY-FIREWALL', 0],
      ['filter KUBE-IPVS-FILTER', 6],
      ['filter KUBE-IPVS-OUT-FILTER', 0],
    ],
  )
})

test('renderIpvsRules has the rules of a set while it has entries', () => {
  const all = (filled: ReadonlySet<string>): readonly string[] =>
    [...renderIpvsRules(everything('IPv4', { filled })).items.values()].flatMap((item) =>
      item.kind === 'chain' ? item.rules : [],
    )
  const base = all(new Set()).length
  const rows = [
    ['LOOP-BACK', 1],
    ['CLUSTER-IP', 2],
    ['EXTERNAL-IP', 3],
    ['EXTERNAL-IP-LOCAL', 2],
    ['LOAD-BALANCER', 2],
    ['LOAD-BALANCER-FW', 1],
    ['LOAD-BALANCER-LOCAL', 1],
    ['LOAD-BALANCER-SOURCE-IP', 1],
    ['LOAD-BALANCER-SOURCE-CIDR', 1],
    ['NODE-PORT-TCP', 1],
    ['NODE-PORT-LOCAL-TCP', 1],
    ['NODE-PORT-UDP', 1],
    ['NODE-PORT-LOCAL-UDP', 1],
    ['NODE-PORT-SCTP-HASH', 1],
    ['NODE-PORT-LOCAL-SCTP-HASH', 1],
    ['HEALTH-CHECK-NODE-PORT', 0],
    ['IPVS-IPS', 0],
  ] as const
  for (const [role, count] of rows) assert.equal(all(new Set([setName(role, 'IPv4')])).length - base, count, role)
})
