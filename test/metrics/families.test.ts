/**
 * The metric families of the page, compared with those of the real kube-proxy and, for our own,
 * with docs/metrics.md.
 */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { before, describe, it } from 'node:test'
import { OWN } from '../../src/metrics/own-families.ts'
import { goNumber, type MetricFamily } from '../../src/metrics/page.ts'
import { KUBERNETES, PROCESS } from '../../src/metrics/process-page.ts'
import { PROXY, PROXY_IPTABLES, REQUESTS } from '../../src/metrics/proxy-page.ts'
import { metricsText, slisText } from '../../src/metrics/scrape.ts'
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
const ofBothModes: readonly MetricFamily[] = [PROXY, KUBERNETES, PROCESS, REQUESTS].flatMap((some) =>
  Object.values(some),
)

let page: ReadonlyMap<string, ParsedFamily>
before(async () => {
  page = parseMetrics(await metricsText(everythingCounted()))
})

describe('families of kube-proxy', () => {
  it('have the type, help text, labels and buckets of kube-proxy', () => {
    const rows: [readonly MetricFamily[], boolean][] = [
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

  it('are complete', () => {
    const named = new Set([...ofBothModes, ...Object.values(PROXY_IPTABLES)].map(({ name }) => name))
    const missing = recorded.filter(({ name }) => /^(kubeproxy|process|kubernetes)_/.test(name) && !named.has(name))
    assert.deepEqual(missing, [])
  })

  it('are printed with these labels and buckets', () => {
    for (const { name, type, help, labels, buckets } of recorded) {
      const family = page.get(name)
      if (family === undefined) continue
      assert.deepEqual([family.type, family.help, labelsOf(family)], [type, help, labels], name)
      assert.deepEqual(bucketsOf(family), buckets ?? [], name)
    }
    for (const { name } of ofBothModes) assert.ok(page.has(name), name)
    for (const { name } of Object.values(PROXY_IPTABLES)) assert.ok(!page.has(name), name)
  })

  it('have every series that kube-proxy shows after its first sync', () => {
    const seriesOf = (family: ParsedFamily | undefined): string[] =>
      (family?.samples ?? []).map(({ name, labels }) => `${name}${JSON.stringify([...labels])}`).sort()
    const kubeProxy = parseMetrics(readFileSync(recordingPath('surfaces/http/metrics-ipvs.txt'), 'utf8'))
    for (const { name } of Object.values(PROXY)) {
      // Our page may have more series: status codes and IP families depend on what happened before.
      const present = new Set(seriesOf(page.get(name)))
      for (const series of seriesOf(kubeProxy.get(name))) assert.ok(present.has(series), series)
    }
  })
})

describe('the dashboard and alerts of kubernetes-mixin', () => {
  it('find every series that they query', () => {
    // dashboards/proxy.libsonnet without go_goroutines; `up` is the scraper's own.
    const queried: [string, Record<string, string>][] = [
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
    for (const [name, labels] of queried)
      assert.ok(
        samples.some((it) => it.name === name && Object.entries(labels).every(([k, v]) => it.labels.get(k) === v)),
        `${name} ${JSON.stringify(labels)}`,
      )
  })
})

describe('families of kube-ipvs', () => {
  it('are printed as declared, and the page has no undeclared family', () => {
    for (const { name, type, help, labels, buckets } of Object.values<MetricFamily>(OWN)) {
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

  it('are the table of docs/metrics.md, which UPDATE_GOLDEN=1 rewrites', () => {
    const file = new URL('../../docs/metrics.md', import.meta.url)
    const text = readFileSync(file, 'utf8')
    const start = text.indexOf('\n\n|', text.indexOf('## Families of kube-ipvs')) + 2
    const end = text.indexOf('\n\n', start)
    const table = documentedTable(Object.values<MetricFamily>(OWN))
    if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(file, text.slice(0, start) + table + text.slice(end))
    else assert.equal(text.slice(start, end), table)
  })
})

describe('/metrics/slis', () => {
  it('has the text of kube-proxy', () => {
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

/** The families by name as a Markdown table, with columns aligned as the formatter leaves them. */
function documentedTable(families: readonly MetricFamily[]): string {
  const rows = families
    .map(({ name, labels, type, help }) => [
      `\`${name}\`${labels.length === 0 ? '' : ` {${labels.join(', ')}}`}`,
      type,
      help,
    ])
    .sort(([a = ''], [b = '']) => (a < b ? -1 : 1))
  const table = [['family', 'type', 'meaning'], ...rows]
  const widths = [0, 1, 2].map((column) => Math.max(...table.map((row) => row[column]?.length ?? 0)))
  const lines = table.map((row) => `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`)
  return lines.toSpliced(1, 0, `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`).join('\n')
}
