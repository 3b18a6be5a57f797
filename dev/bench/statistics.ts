/** Numbers from samples. Pure; without samples they give null, never 0. */

/** Nearest-rank percentile; `share` from 0 to 1. */
export function percentile(samples: readonly number[], share: number): number | null {
  const sorted = samples.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? null
}

/**
 * How far the median of these samples may be from that of very many, as a share of it, in 19 of 20 cases: the standard error of
 * a median, from the middle half of the samples, twice. null with fewer than three.
 */
export function medianUncertainty(samples: readonly number[]): number | null {
  const [lower, middle, upper] = [0.25, 0.5, 0.75].map((share) => percentile(samples, share))
  if (samples.length < 3 || !lower || !middle || !upper) return null
  const deviation = (upper - lower) / 1.349
  return (2 * 1.2533 * deviation) / Math.sqrt(samples.length) / middle
}

/** Slope of the straight line of least squares through the points; null with fewer than two different x. */
export function slope(points: readonly (readonly [x: number, y: number])[]): number | null {
  const meanX = points.reduce((sum, [x]) => sum + x, 0) / points.length
  const meanY = points.reduce((sum, [, y]) => sum + y, 0) / points.length
  const spread = points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0)
  if (!(spread > 0)) return null
  return points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0) / spread
}

/** Rounded for printing; null stays null. */
export function rounded(value: number | null, digits: number): number | null {
  return value === null || !Number.isFinite(value) ? null : Number(value.toFixed(digits))
}
