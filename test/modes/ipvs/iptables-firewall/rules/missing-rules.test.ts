/** Who has to wait for which rule. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { missingRules } from '../../../../../src/modes/ipvs/iptables-firewall/rules/missing-rules.ts'
import { renderIpvsRules } from '../../../../../src/modes/ipvs/iptables-firewall/rules/render.ts'
import type { IptablesItem } from '../../../../../src/iptables/types.ts'
import { everything } from './wanted.ts'

const { items: wanted } = renderIpvsRules(everything('IPv4'))

/** What is missing when the rules are there but for what `change` does to them. */
function missing(change: (live: Map<string, IptablesItem>) => void): readonly string[] {
  const live = new Map(structuredClone([...wanted]))
  change(live)
  const found = missingRules(
    { desired: (key) => wanted.get(key), live: (key) => live.get(key), desiredKeys: () => wanted.keys() },
    'IPv4',
  )
  return [...(found.forAll ? ['all'] : []), ...found.sets]
}

/** Takes the rules away from a chain that contain this text. */
const without =
  (chain: string, text: string) =>
  (live: Map<string, IptablesItem>): void => {
    const item = live.get(chain)
    assert.ok(item?.kind === 'chain')
    const rules = item.rules.filter((rule) => !rule.includes(text))
    assert.ok(rules.length < item.rules.length, text)
    live.set(chain, { ...item, rules })
  }
const lost = (key: string) => (live: Map<string, IptablesItem>) => assert.ok(live.delete(key), key)

test('missingRules names the traffic that needs missing rules', () => {
  const rows: readonly (readonly [(live: Map<string, IptablesItem>) => void, readonly string[]])[] = [
    [() => undefined, []],
    [lost('nat KUBE-MARK-MASQ'), ['all']],
    [lost('nat OUTPUT KUBE-SERVICES'), ['all']],
    [lost('nat POSTROUTING KUBE-POSTROUTING'), ['all']],
    [without('nat KUBE-POSTROUTING', '-m mark'), ['all']],
    [without('nat KUBE-POSTROUTING', 'LOOP-BACK'), ['KUBE-LOOP-BACK']],
    [without('nat KUBE-SERVICES', 'KUBE-EXTERNAL-IP '), ['KUBE-EXTERNAL-IP']],
    [without('nat KUBE-SERVICES', 'KUBE-CLUSTER-IP dst,dst -j ACCEPT'), ['KUBE-CLUSTER-IP']],
    [without('nat KUBE-LOAD-BALANCER', 'KUBE-LOAD-BALANCER-LOCAL'), ['KUBE-LOAD-BALANCER-LOCAL']],
    [without('nat KUBE-LOAD-BALANCER', '-j KUBE-MARK-MASQ'), ['KUBE-LOAD-BALANCER']],
    [without('nat KUBE-NODE-PORT', 'KUBE-NODE-PORT-UDP '), ['KUBE-NODE-PORT-UDP']],
    [lost('filter KUBE-PROXY-FIREWALL'), ['KUBE-LOAD-BALANCER-FW']],
    [lost('filter FORWARD KUBE-PROXY-FIREWALL'), ['KUBE-LOAD-BALANCER-FW']],
    [without('filter KUBE-SOURCE-RANGES-FIREWALL', '-j DROP'), ['KUBE-LOAD-BALANCER-FW']],
    [without('filter KUBE-SOURCE-RANGES-FIREWALL', 'SOURCE-CIDR'), ['KUBE-LOAD-BALANCER-FW']],
    [without('filter KUBE-IPVS-OUT-FILTER', '--vport 53'), ['KUBE-LOAD-BALANCER-FW']],
    // These only accept or refuse: without them no traffic is open or unmasqueraded.
    [lost('filter KUBE-FORWARD'), []],
    [lost('filter KUBE-IPVS-FILTER'), []],
    [lost('filter INPUT KUBE-NODE-PORT'), []],
  ]
  for (const [change, expected] of rows) assert.deepEqual(missing(change), expected, change.toString())
})

test('missingRules accepts a rule in another spelling', () => {
  const respell = (live: Map<string, IptablesItem>): void => {
    const item = live.get('nat KUBE-MARK-MASQ')
    assert.ok(item?.kind === 'chain')
    live.set('nat KUBE-MARK-MASQ', { ...item, rules: ['-j MARK --set-xmark 0x00004000/16384'] })
  }
  assert.deepEqual(missing(respell), [])
})
