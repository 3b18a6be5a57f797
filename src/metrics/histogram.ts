/**
 * Histograms as plain numbers, so that observing a value allocates nothing, and their bucket
 * bounds. kube-proxy 1.37 has the same bounds for its families: dashboards add up the buckets of
 * both programs, so none of these may differ.
 */

export class Histogram {
  /** Upper bounds in ascending order, without the last one (+Inf). */
  readonly bounds: readonly number[]
  /** Values per bucket, not cumulative; the last count is for values above all bounds. */
  readonly counts: Float64Array
  sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = new Float64Array(bounds.length + 1)
  }

  observe(value: number): void {
    const { bounds, counts } = this
    let bucket = 0
    while (bucket < bounds.length && value > (bounds[bucket] ?? 0)) bucket++
    counts[bucket] = (counts[bucket] ?? 0) + 1
    this.sum += value
  }

  /** Number of values observed since the start. */
  get count(): number {
    return this.counts.reduce((sum, count) => sum + count, 0)
  }
}

/** 15 bounds from 1 ms, each twice the one before. */
export const SYNC_SECONDS: readonly number[] = Array.from({ length: 15 }, (_, power) => 2 ** power / 1000)

function steps(from: number, to: number, step: number): number[] {
  return Array.from({ length: (to - from) / step + 1 }, (_, index) => from + index * step)
}

/** One bound a second below a minute, which is the limit of Kubernetes' service level objective. */
export const PROGRAMMING_SECONDS: readonly number[] = [
  0,
  0.25,
  0.5,
  ...steps(1, 59, 1),
  ...steps(60, 115, 5),
  ...steps(120, 300, 30),
]

export const REQUEST_SECONDS: readonly number[] = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60]

export const REQUEST_BYTES: readonly number[] = [
  64, 256, 512, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216,
]

/** An audit is slowed down on purpose: a small table takes milliseconds, a large one many minutes. */
export const AUDIT_SECONDS: readonly number[] = [0.01, 0.1, 1, 10, 60, 300, 900, 3600]

/** Delays of the event loop: a few milliseconds are normal, a second is not. */
export const DELAY_SECONDS: readonly number[] = [
  0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024,
]
