/** The metrics that only iptables mode has, as kube-proxy shows them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PROXY_IPTABLES } from '../../src/metrics/proxy-page.ts'
import { RuleCounts } from '../../src/metrics/rule-counts.ts'
import { metricsText } from '../../src/metrics/scrape.ts'
import { everythingCounted } from '../support/counted.ts'
import { parseMetrics, valueOf } from '../support/metrics-text.ts'

test('RuleCounts counts full and partial syncs separately, and no pass that only read the rules', () => {
  const counts = new RuleCounts()
  counts.passed({ full: true, changed: true, failed: false, durationMs: 2000 })
  counts.passed({ full: false, changed: true, failed: false, durationMs: 10 })
  counts.passed({ full: false, changed: false, failed: true, durationMs: 20 })
  counts.passed({ full: true, changed: false, failed: true, durationMs: 30 })
  counts.passed({ full: true, changed: false, failed: false, durationMs: 40 })
  assert.deepEqual([counts.fullSeconds.count, counts.partialSeconds.count, counts.partialFailures], [2, 2, 1])
})

test('the page of iptables mode shows every family of that mode', async () => {
  const counted = everythingCounted()
  const counts = new RuleCounts()
  counts.passed({ full: true, changed: true, failed: false, durationMs: 2000 })
  const families = (['IPv4', 'IPv6'] as const).map((family) => ({
    family,
    counts,
    written: () => new Map([['nat', 3]]),
    owned: () =>
      new Map([
        ['nat', 30],
        ['filter', 7],
        ['mangle', 1],
      ]),
  }))
  const packets = async () => ({ invalidDropped: 5, loopbackAccepted: 6 })
  const sources = { ...counted.sources, rules: { families, packets } }
  const page = parseMetrics(await metricsText({ ...counted, sources }))
  for (const { name, labels } of Object.values(PROXY_IPTABLES)) {
    const [sample] = page.get(name)?.samples ?? []
    assert.ok(sample, name)
    assert.deepEqual([...sample.labels.keys()].filter((label) => label !== 'le').sort(), [...labels].sort(), name)
  }
  const value = (name: string, table: string): number | undefined =>
    valueOf(page, `kubeproxy_sync_proxy_rules_iptables_${name}`, { ip_family: 'IPv6', table })
  assert.deepEqual(
    [value('total', 'nat'), value('total', 'filter'), value('last', 'nat'), value('last', 'filter')],
    [30, 7, 3, 0],
  )
  assert.equal(value('total', 'mangle'), undefined)
  assert.equal(valueOf(page, 'kubeproxy_iptables_ct_state_invalid_dropped_packets_total'), 5)
  assert.equal(valueOf(page, 'kubeproxy_iptables_localhost_nodeports_accepted_packets_total'), 6)
})
