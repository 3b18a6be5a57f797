/** The alerts and the dashboard of the chart use only metrics and labels that the program has. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { before, describe, it } from 'node:test'
import { parse } from 'yaml'
import { metricsText } from '../../src/metrics/scrape.ts'
import { everythingCounted } from '../support/counted.ts'
import { labelsOf, parseMetrics } from '../support/metrics-text.ts'

interface Alert {
  readonly alert: string
  readonly expr: string
  readonly for: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

const file = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const ALERTS: readonly Alert[] = parse(file('helm/files/alerts.yaml'))

/** Labels that the PodMonitor and Prometheus add to every series. */
const OF_THE_TARGET = ['instance', 'job', 'node']
/** Words of PromQL and of Grafana that stand where a metric could stand. */
const WORDS = new Set(
  'absent and bool by count histogram_quantile ignoring le max min min_over_time on or rate sum time topk unless without'.split(
    ' ',
  ),
)

/** Labels by the name of a sample, `_bucket` and the like included. */
let known: ReadonlyMap<string, ReadonlySet<string>>
before(async () => {
  const labels = new Map([['up', new Set<string>()]])
  for (const family of parseMetrics(await metricsText(everythingCounted())).values())
    for (const { name } of family.samples) labels.set(name, new Set([...labelsOf(family), 'le']))
  known = labels
})

interface Names {
  readonly metrics: readonly string[]
  readonly labels: readonly string[]
}

/** The names of metrics in an expression, and of labels in its selectors and groupings. */
function namesIn(expression: string): Names {
  const plain = expression.replace(/"[^"]*"/g, '""').replace(/\[[^\]]*\]/g, '')
  const groupings = Array.from(plain.matchAll(/\b(?:by|without|on|ignoring) *\(([^)]*)\)/g), ([, list = '']) => list)
  const selectors = Array.from(plain.matchAll(/\{([^}]*)\}/g), ([, list = '']) => list)
  const inSelectors = selectors.flatMap((list) =>
    Array.from(list.matchAll(/(\w+) *(?:=~|!~|!=|=)/g), ([, name = '']) => name),
  )
  const rest = plain.replace(/\b(?:by|without|on|ignoring) *\([^)]*\)/g, '').replace(/\{[^}]*\}/g, '')
  return {
    metrics: (rest.match(/\b[a-z_]\w*\b/gi) ?? []).filter((word) => !WORDS.has(word)),
    labels: [...groupings.flatMap((list) => list.match(/\w+/g) ?? []), ...inSelectors],
  }
}

/** What an expression names and the program does not have. */
function unknownNames(expression: string, moreLabels: readonly string[] = []): readonly string[] {
  const { metrics, labels } = namesIn(expression)
  const missing = metrics.filter((name) => !known.has(name))
  const present = new Set([...OF_THE_TARGET, ...metrics.flatMap((name) => [...(known.get(name) ?? [])])])
  return [...missing, ...[...labels, ...moreLabels].filter((label) => !present.has(label))]
}

describe('the alerts of the chart', () => {
  it('name only metrics and labels of the program', () => {
    assert.ok(ALERTS.length > 10)
    for (const { alert, expr, annotations } of ALERTS) {
      const used = Array.from(
        Object.values(annotations)
          .join()
          .matchAll(/\$labels\.(\w+)/g),
        ([, label = '']) => label,
      )
      assert.deepEqual(unknownNames(expr, used), [], alert)
      assert.ok(namesIn(expr).metrics.length > 0, alert)
    }
  })

  it('keep the labels that their texts show', () => {
    for (const { alert, expr, annotations } of ALERTS) {
      const [, grouping] = /\bby \(([^)]*)\)/.exec(expr) ?? []
      const used = Array.from(
        Object.values(annotations)
          .join()
          .matchAll(/\$labels\.(\w+)/g),
        ([, label = '']) => label,
      )
      if (grouping !== undefined)
        for (const label of used) assert.ok(grouping.split(/, */).includes(label), `${alert}: ${label}`)
    }
  })

  it('have a section of docs/alerts.md each, and the document has no other', () => {
    const sections = Array.from(file('docs/alerts.md').matchAll(/^## (\w+)$/gm), ([, name = '']) => name)
    assert.deepEqual(ALERTS.map(({ alert }) => alert).sort(), sections.sort())
  })

  it('have a duration, a severity, a summary and a description', () => {
    for (const { alert, for: duration, labels, annotations } of ALERTS) {
      assert.match(duration, /^\d+m$/, alert)
      assert.match(labels['severity'] ?? '', /^(critical|warning|info)$/, alert)
      assert.deepEqual(Object.keys(annotations).sort(), ['description', 'summary'], alert)
    }
  })
})

interface Panel {
  readonly id: number
  readonly type: 'row' | 'timeseries'
  readonly title: string
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly targets?: readonly { readonly expr: string }[]
}

describe('the dashboard of the chart', () => {
  const { panels }: { panels: readonly Panel[] } = JSON.parse(file('helm/files/dashboard.json'))
  const charts = panels.filter(({ type }) => type === 'timeseries')

  it('names only metrics and labels of the program, of the chosen job and nodes', () => {
    const expressions = charts.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
    assert.ok(expressions.length > 15)
    for (const expression of expressions) {
      assert.deepEqual(unknownNames(expression), [], expression)
      for (const [, selector = ''] of expression.matchAll(/\{([^}]*)\}/g))
        assert.ok(selector.startsWith('job="$job", node=~"$node"'), expression)
    }
  })

  it('has panels with a query and an id each, which do not overlap', () => {
    assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length)
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, index) => `${x + (index % w)},${y + Math.floor(index / w)}`),
    )
    assert.equal(new Set(cells).size, cells.length)
    for (const { title, targets, gridPos } of charts) {
      assert.ok((targets ?? []).length > 0, title)
      assert.ok(gridPos.x + gridPos.w <= 24, title)
    }
  })
})

describe('the check of expressions', () => {
  it('finds names that do not exist', () => {
    assert.deepEqual(unknownNames('rate(kubeipvs_gone_total{job="JOB"}[5m]) > 0'), ['kubeipvs_gone_total'])
    assert.deepEqual(unknownNames('sum by (tabel) (kubeipvs_table_entries{tabel="x"})'), ['tabel', 'tabel'])
    assert.deepEqual(unknownNames('kubeipvs_conflicts', ['table']), ['table'])
    assert.deepEqual(unknownNames('kubeipvs_table_entries{table="x", job="y"}', ['table', 'node']), [])
  })
})
