/** The text format of Prometheus, compared with numbers that Go printed, and with labels that try to forge samples. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Histogram } from '../../src/metrics/histogram.ts'
import { goNumber, type MetricFamily, MetricsPage } from '../../src/metrics/page.ts'
import { parseMetrics, valueOf } from '../support/metrics-text.ts'

const GAUGE: MetricFamily = { name: 'a_gauge', type: 'gauge', help: 'Two\nlines and \\.', labels: ['one', 'two'] }
const HISTOGRAM: MetricFamily = { name: 'a_histogram', type: 'histogram', help: 'H', labels: [], buckets: [0.5, 1e6] }

test('goNumber writes numbers as Go does', () => {
  // fmt.Println(strconv.FormatFloat(f, 'g', -1, 64)), go 1.26
  const rows: [number, string][] = [
    [0, '0'],
    [21, '21'],
    [999_999, '999999'],
    [1_000_000, '1e+06'],
    [1_048_576, '1.048576e+06'],
    [1_234_567.5, '1.2345675e+06'],
    [123_456_789, '1.23456789e+08'],
    [1_795_191_089.05, '1.79519108905e+09'],
    [2 ** 64, '1.8446744073709552e+19'],
    [1e21, '1e+21'],
    [1e100, '1e+100'],
    [0.0001, '0.0001'],
    [0.000_01, '1e-05'],
    [-0.25, '-0.25'],
    [Number.POSITIVE_INFINITY, '+Inf'],
    [Number.NEGATIVE_INFINITY, '-Inf'],
    [Number.NaN, 'NaN'],
  ]
  for (const [number, text] of rows) assert.equal(goNumber(number), text)
})

test('goNumber prints a text that reads back as the same number', () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (number) => {
      assert.equal(Number(goNumber(number)), number === 0 ? 0 : number)
    }),
  )
})

test('MetricsPage escapes labels so that any text reads back', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string(), fc.double({ noNaN: true }), (one, two, value) => {
      const page = new MetricsPage()
      page.value(GAUGE, [one, two], value)
      const families = parseMetrics(page.text())
      assert.equal(families.get('a_gauge')?.help, GAUGE.help)
      assert.deepEqual(
        [...(families.get('a_gauge')?.samples[0]?.labels ?? [])],
        [
          ['one', one],
          ['two', two],
        ],
      )
    }),
  )
})

test('MetricsPage prints one sample for a label that imitates a second one', () => {
  const page = new MetricsPage()
  page.value(GAUGE, ['"} 1\nforged_total{a="', '\\'], 7)
  const families = parseMetrics(page.text())
  assert.deepEqual([...families.keys()], ['a_gauge'])
  assert.equal(families.get('a_gauge')?.samples.length, 1)
})

test('MetricsPage sorts families by name and omits those without a sample', () => {
  const page = new MetricsPage()
  page.histogram(HISTOGRAM, [], new Histogram(HISTOGRAM.buckets ?? []))
  page.value(GAUGE, ['', ''], 1)
  page.value(GAUGE, ['x', ''], 2)
  assert.deepEqual([...parseMetrics(page.text()).keys()], ['a_gauge', 'a_histogram'])
  assert.equal(new MetricsPage().text(), '')
})

test('Histogram counts a value equal to a bound in the bucket of that bound', () => {
  const histogram = new Histogram([0.5, 1e6])
  for (const value of [0, 0.5, 0.6, 1e6, 1e6 + 1]) histogram.observe(value)
  const page = new MetricsPage()
  page.histogram(HISTOGRAM, [], histogram)
  const families = parseMetrics(page.text())
  const bucket = (le: string): number | undefined => valueOf(families, 'a_histogram_bucket', { le })
  assert.deepEqual([bucket('0.5'), bucket('1e+06'), bucket('+Inf')], [2, 4, 5])
  assert.equal(valueOf(families, 'a_histogram_count'), 5)
  assert.equal(valueOf(families, 'a_histogram_sum'), 0 + 0.5 + 0.6 + 1e6 + 1e6 + 1)
})

test('Histogram has the counts that a filter over all values gives', () => {
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0, max: 100, noNaN: true })), (values) => {
      const bounds = [1, 5, 25]
      const histogram = new Histogram(bounds)
      for (const value of values) histogram.observe(value)
      assert.equal(histogram.count, values.length)
      bounds.forEach((bound, index) => {
        const upTo = histogram.counts.slice(0, index + 1).reduce((sum, count) => sum + count, 0)
        assert.equal(upTo, values.filter((value) => value <= bound).length)
      })
    }),
  )
})
