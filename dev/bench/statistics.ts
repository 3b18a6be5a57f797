/** Numbers from samples. Pure; without samples they give null, never 0. */

/** Nearest-rank percentile; `share` from 0 to 1. */
export function percentile(samples: readonly number[], share: number): number | null {
  const sorted = samples.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? null
}

/** Rounded for printing; null stays null. */
export function rounded(value: number | null, digits: number): number | null {
  return value === null || !Number.isFinite(value) ? null : Number(value.toFixed(digits))
}
