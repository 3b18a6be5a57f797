/**
 * Slopes with their confidence, pure. Samples of one process depend on each other, so each point is
 * the mean of a block of them, and what dependence is left between neighbouring points widens the
 * interval.
 */

export interface Point {
  readonly x: number
  readonly y: number
}

/** In units of y for one of x. */
export interface Slope {
  readonly slope: number
  /** The interval that holds the true slope with 95 % confidence. */
  readonly low: number
  readonly high: number
  readonly points: number
  /** Correlation of each point's distance from the line with that of the one before. */
  readonly autocorrelation: number
}

/** Two-sided 95 % quantiles of Student's distribution with 1, 2, 3 ... degrees of freedom. */
const STUDENT = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131]
const FEWEST_POINTS = 4

/** Between 1 and `STUDENT.length` they are interpolated; beyond, the usual approximation is right to 0.5 %. */
export function studentQuantile(degrees: number): number {
  if (degrees > STUDENT.length) return 1.96 + 2.46 / degrees
  const below = Math.max(1, Math.floor(degrees))
  const [one = Number.NaN, other = one] = STUDENT.slice(below - 1, below + 1)
  return one + (other - one) * (Math.max(1, degrees) - below)
}

/**
 * Least squares. Where neighbouring points lie on the same side of the line more often than chance
 * has it, they count as fewer points. undefined with fewer than four.
 */
export function slopeOf(points: readonly Point[]): Slope | undefined {
  const count = points.length
  if (count < FEWEST_POINTS) return undefined
  const mean = (of: (point: Point) => number): number => points.reduce((sum, point) => sum + of(point), 0) / count
  const [meanX, meanY] = [mean(({ x }) => x), mean(({ y }) => y)]
  const spread = points.reduce((sum, { x }) => sum + (x - meanX) ** 2, 0)
  const slope = points.reduce((sum, { x, y }) => sum + (x - meanX) * (y - meanY), 0) / spread
  const residuals = points.map(({ x, y }) => y - meanY - slope * (x - meanX))
  const squares = residuals.reduce((sum, residual) => sum + residual ** 2, 0)
  const products = residuals.slice(1).reduce((sum, residual, index) => sum + residual * (residuals[index] ?? 0), 0)
  const autocorrelation = squares === 0 ? 0 : products / squares
  // Points that repel each other do not make the interval narrower.
  const shared = Math.min(0.9, Math.max(0, autocorrelation))
  const effective = (count * (1 - shared)) / (1 + shared)
  const degrees = Math.max(1, effective - 2)
  const margin = studentQuantile(degrees) * Math.sqrt(squares / degrees / spread)
  return { slope, low: slope - margin, high: slope + margin, points: count, autocorrelation }
}

/** Means of the values of each block of so many; a block that is not whole is left out. */
export function blockMeans(points: readonly Point[], size: number): Point[] {
  return Array.from({ length: Math.floor(points.length / size) }, (_, block) => {
    const members = points.slice(block * size, (block + 1) * size)
    const mean = (of: (point: Point) => number): number => members.reduce((sum, point) => sum + of(point), 0) / size
    return { x: mean(({ x }) => x), y: mean(({ y }) => y) }
  })
}
