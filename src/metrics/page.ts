/**
 * A page of metrics in the text format of Prometheus, version 0.0.4, numbers written as Go writes them.
 * What could break: the samples of a family must stand together, and a label's value may be any text a Service's owner chose.
 */
import type { Family } from './family.ts'
import type { Histogram } from './histogram.ts'

export class MetricsPage {
  readonly #samples = new Map<Family, string[]>()

  /** One sample of a counter or gauge. @param labels values in the order of the family's labels */
  value(family: Family, labels: readonly string[], value: number): void {
    this.#of(family).push(`${family.name}${braces(pairs(family, labels))} ${goNumber(value)}`)
  }

  histogram(family: Family, labels: readonly string[], histogram: Histogram): void {
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

  /** The families by name. One without a sample is not there, as in kube-proxy. */
  text(): string {
    return [...this.#samples]
      .sort(([{ name: a }], [{ name: b }]) => (a < b ? -1 : 1))
      .map(([{ name, type, help }, samples]) => {
        return `# HELP ${name} ${escaped(help)}\n# TYPE ${name} ${type}\n${samples.join('\n')}\n`
      })
      .join('')
  }

  #of(family: Family): string[] {
    let samples = this.#samples.get(family)
    if (samples === undefined) {
      samples = []
      this.#samples.set(family, samples)
    }
    return samples
  }
}

function pairs({ labels: names }: Family, values: readonly string[]): string {
  return names.map((name, index) => `${name}="${escaped(values[index] ?? '').replaceAll('"', '\\"')}"`).join()
}

function braces(labels: string): string {
  return labels === '' ? '' : `{${labels}}`
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}

/**
 * As Go writes a number (strconv.FormatFloat, 'g', shortest): the bound of a bucket is a label, which is compared as text. From a
 * million on, and below a ten thousandth, with an exponent of two digits at least.
 */
export function goNumber(value: number): string {
  if (Number.isNaN(value)) return 'NaN'
  if (!Number.isFinite(value)) return value > 0 ? '+Inf' : '-Inf'
  const size = Math.abs(value)
  if (size === 0 || (size >= 1e-4 && size < 1e6)) return String(value)
  return value.toExponential().replace(/e([+-])(\d)$/, 'e$10$2')
}
