/**
 * A histogram as plain numbers, so that observing a value allocates nothing; the text is made when somebody asks for it.
 * What could break: counts are per bucket here and cumulative only in the text.
 */

export class Histogram {
  /** Upper bounds, ascending, the last bucket (+Inf) not among them. */
  readonly bounds: readonly number[]
  /** How many values belong to each bucket and to none before it; the last is beyond all bounds. */
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

  /** Values seen so far. */
  get count(): number {
    return this.counts.reduce((sum, count) => sum + count, 0)
  }
}
