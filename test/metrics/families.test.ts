/** The families of the page against those of the real kube-proxy, and our own against their documentation. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { before, describe, it } from 'node:test'
import type { Family } from '../../src/metrics/family.ts'
import { OWN } from '../../src/metrics/own-families.ts'
import { goNumber } from '../../src/metrics/page.ts'
import { metricsText, slisText } from '../../src/metrics/pages.ts'
import { KUBERNETES, PROCESS, REQUESTS } from '../../src/metrics/process-families.ts'
import { PROXY, PROXY_IPTABLES } from '../../src/metrics/proxy-families.ts'
import { everythingCounted } from '../support/counted.ts'
import { bucketsOf, labelsOf, parseMetrics, type ParsedFamily } from '../support/metrics-text.ts'
import { recordingPath } from '../support/recordings.ts'

interface RecordedFamily {
  readonly name: string
  readonly type: string
  readonly help: string
  readonly labels: readonly string[]
  readonly buckets?: readonly string[]
  readonly ipvs: boolean
  readonly iptables: boolean
}

const recorded: readonly RecordedFamily[] = JSON.parse(
  readFileSync(recordingPath('surfaces/http/metrics.json'), 'utf8'),
).families
const ofBothModes: readonly Family[] = [PROXY, KUBERNETES, PROCESS, REQUESTS].flatMap((some) => Object.values(some))

let page: ReadonlyMap<string, ParsedFamily>
before(async () => {
  page = parseMetrics(await metricsText(everythingCounted()))
})

describe('families of kube-proxy', () => {
  it('are described as kube-proxy describes them', () => {
    const rows: [readonly Family[], boolean][] = [
      [ofBothModes, true],
      [Object.values(PROXY_IPTABLES), false],
    ]
    for (const [families, ipvs] of rows)
      for (const { name, type, help, labels, buckets } of families) {
        const found = recorded.find((one) => one.name === name)
        assert.ok(found, name)
        const bounds = buckets && [...buckets, Number.POSITIVE_INFINITY].map(goNumber)
        assert.deepEqual({ type, help, labels, bounds, ipvs, iptables: true }, { ...partsOf(found) }, name)
      }
  })

  it('are all there that kube-proxy itself has', () => {
    const named = new Set([...ofBothModes, ...Object.values(PROXY_IPTABLES)].map(({ name }) => name))
    const missing = recorded.filter(({ name }) => /^(kubeproxy|process|kubernetes)_/.test(name) && !named.has(name))
    assert.deepEqual(missing, [])
  })

  it('are on the page with these labels and buckets, as text', () => {
    for (const { name, type, help, labels, buckets } of recorded) {
      const family = page.get(name)
      if (family === undefined) continue
      assert.deepEqual([family.type, family.help, labelsOf(family)], [type, help, labels], name)
      assert.deepEqual(bucketsOf(family), buckets ?? [], name)
    }
    for (const { name } of ofBothModes) assert.ok(page.has(name), name)
    for (const { name } of Object.values(PROXY_IPTABLES)) assert.ok(!page.has(name), name)
  })

  it('have the same series for what kube-proxy shows from its first sync on', () => {
    const seriesOf = (family: ParsedFamily | undefined): string[] =>
      (family?.samples ?? []).map(({ name, labels }) => `${name}${JSON.stringify([...labels])}`).sort()
    const kubeProxy = parseMetrics(readFileSync(recordingPath('surfaces/http/metrics-ipvs.txt'), 'utf8'))
    for (const { name } of Object.values(PROXY)) {
      // Codes, and families that had nothing to do there, depend on what happened.
      const there = new Set(seriesOf(page.get(name)))
      for (const series of seriesOf(kubeProxy.get(name))) assert.ok(there.has(series), series)
    }
  })
})

describe("kubernetes-mixin's dashboard and alerts", () => {
  it('find every series they ask for', () => {
    // dashboards/proxy.libsonnet without go_goroutines; `up` is the scraper's own.
    const asked: [string, Record<string, string>][] = [
      ['kubeproxy_sync_proxy_rules_duration_seconds_count', {}],
      ['kubeproxy_sync_proxy_rules_duration_seconds_bucket', { le: '0.001' }],
      ['kubeproxy_network_programming_duration_seconds_count', {}],
      ['kubeproxy_network_programming_duration_seconds_bucket', { le: '0.25' }],
      ['rest_client_requests_total', { code: '200' }],
      ['rest_client_request_duration_seconds_bucket', { verb: 'GET', le: '0.025' }],
      ['rest_client_request_duration_seconds_bucket', { verb: 'POST', le: '0.025' }],
      ['process_resident_memory_bytes', {}],
      ['process_cpu_seconds_total', {}],
    ]
    const samples = [...page.values()].flatMap((family) => family.samples)
    for (const [name, labels] of asked)
      assert.ok(
        samples.some((it) => it.name === name && Object.entries(labels).every(([k, v]) => it.labels.get(k) === v)),
        `${name} ${JSON.stringify(labels)}`,
      )
  })
})

describe('families of kube-ipvs', () => {
  it('are on the page as they are described, and nothing else is', () => {
    for (const { name, type, help, labels, buckets } of Object.values<Family>(OWN)) {
      const family = page.get(name)
      assert.ok(family, name)
      const bounds = buckets === undefined ? [] : [...buckets, Number.POSITIVE_INFINITY].map(goNumber)
      assert.deepEqual([family.type, family.help], [type, help])
      assert.deepEqual([labelsOf(family), bucketsOf(family)], [labels, bounds], name)
      assert.deepEqual(labels, labels.toSorted(), name)
    }
    const known = new Set<string>([...ofBothModes, ...Object.values(OWN)].map(({ name }) => name))
    assert.deepEqual(
      [...page.keys()].filter((name) => !known.has(name)),
      [],
    )
  })

  it('follow the naming rules of Prometheus', () => {
    for (const { name, type } of Object.values(OWN)) {
      assert.match(name, /^kubeipvs_[a-z_]+$/)
      assert.equal(name.endsWith('_total'), type === 'counter', name)
    }
  })

  it('are those of docs/metrics.md, with their labels and words', () => {
    const text = readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8')
    const rows = [...text.matchAll(/^\| `(kubeipvs_\w+)`(?: \{(.*?)\})?\s*\| (\w+)\s*\| (.*?)\s*\|$/gm)]
    const documented = rows.map(([, name, labels = '', type, help]) => ({ name, labels, type, help })).sort(byName)
    const described = Object.values<Family>(OWN).map(({ name, labels, type, help }) => ({
      name,
      labels: labels.join(', '),
      type,
      help,
    }))
    assert.deepEqual(documented, described.sort(byName))
  })
})

describe('/metrics/slis', () => {
  it('is what kube-proxy gives', () => {
    const text = slisText(everythingCounted().probes)
    assert.deepEqual(text.split('\n').slice(0, 8), [
      '# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.',
      '# TYPE kubernetes_healthcheck gauge',
      'kubernetes_healthcheck{name="ping",type="healthz"} 1',
      '# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.',
      '# TYPE kubernetes_healthchecks_total counter',
      'kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 1',
      '# HELP process_start_time_seconds [ALPHA] Start time of the process since unix epoch in seconds.',
      '# TYPE process_start_time_seconds gauge',
    ])
    assert.equal(parseMetrics(text).size, 3)
  })
})

function partsOf({ type, help, labels, buckets, ipvs, iptables }: RecordedFamily) {
  return { type, help, labels, bounds: buckets, ipvs, iptables }
}

function byName(a: { readonly name?: string | undefined }, b: { readonly name?: string | undefined }): number {
  return (a.name ?? '') < (b.name ?? '') ? -1 : 1
}
