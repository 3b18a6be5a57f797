/**
 * A page of metrics in the text format of Prometheus, version 0.0.4, with numbers written as Go
 * writes them. Hand-written (prom-client is the library for it): prom-client writes numbers as
 * JavaScript does, prints families without samples, and keeps values in its own registry, while we
 * read them where they are counted.
 */
import type { Histogram } from './histogram.ts'

/** What all samples of one metric have in common: a "metric family" of Prometheus, not an IP family. */
export interface MetricFamily {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  /** In alphabetical order, as they are written; `le` follows them. */
  readonly labels: readonly string[]
  /** Upper bounds of a histogram. */
  readonly buckets?: readonly number[]
}

/** Metric families by a short name for our code. */
export type MetricFamilies = Readonly<Record<string, MetricFamily>>

/** The text format requires all samples of a family in one block, so the page collects them before it writes. */
export class MetricsPage {
  readonly #samples = new Map<MetricFamily, string[]>()

  /** Adds one sample of a counter or gauge. @param labels values in the order of the family's labels */
  value(family: MetricFamily, labels: readonly string[], value: number): void {
    this.#of(family).push(`${family.name}${braces(pairs(family, labels))} ${goNumber(value)}`)
  }

  /** Adds the samples of one histogram; the buckets of the text are cumulative. */
  histogram(family: MetricFamily, labels: readonly string[], histogram: Histogram): void {
    const samples = this.#of(family)
    const { name } = family
    const shared = pairs(family, labels)
    const comma = shared === '' ? '' : ','
    let count = 0
    histogram.counts.forEach((inBucket, index) => {
      count += inBucket
      const bound = goNumber(histogram.bounds[index] ?? Number.POSITIVE_INFINITY)
      samples.push(`${name}_bucket{${shared}${comma}le="${bound}"} ${goNumber(count)}`)
    })
    samples.push(`${name}_sum${braces(shared)} ${goNumber(histogram.sum)}`)
    samples.push(`${name}_count${braces(shared)} ${goNumber(count)}`)
  }

  /** The families in the order of their names, without those that have no sample, as in kube-proxy. */
  text(): string {
    return [...this.#samples]
      .sort(([{ name: a }], [{ name: b }]) => (a < b ? -1 : 1))
      .map(([{ name, type, help }, samples]) => {
        return `# HELP ${name} ${escaped(help)}\n# TYPE ${name} ${type}\n${samples.join('\n')}\n`
      })
      .join('')
  }

  #of(family: MetricFamily): string[] {
    let samples = this.#samples.get(family)
    if (samples === undefined) {
      samples = []
      this.#samples.set(family, samples)
    }
    return samples
  }
}

/** The value of a label can be any text that the owner of a Service chose, so it is escaped. */
function pairs({ labels: names }: MetricFamily, values: readonly string[]): string {
  return names.map((name, index) => `${name}="${escaped(values[index] ?? '').replaceAll('"', '\\"')}"`).join()
}

function braces(labels: string): string {
  return labels === '' ? '' : `{${labels}}`
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}

/**
 * A number as Go writes it (strconv.FormatFloat, 'g', shortest): the bound of a bucket is a label,
 * and labels are compared as text. From a million on, and below a ten thousandth, the text has an
 * exponent of at least two digits.
 */
export function goNumber(value: number): string {
  if (Number.isNaN(value)) return 'NaN'
  if (!Number.isFinite(value)) return value > 0 ? '+Inf' : '-Inf'
  const size = Math.abs(value)
  if (size === 0 || (size >= 1e-4 && size < 1e6)) return String(value)
  return value.toExponential().replace(/e([+-])(\d)$/, 'e$10$2')
}
