/**
 * The bounds of the histograms, as kube-proxy 1.36 has them.
 * What could break: dashboards add up the buckets of kube-proxy and of this program, so no bound may differ.
 */

/** 15 bounds from 1 ms, each twice the one before. */
export const SYNC_SECONDS: readonly number[] = Array.from({ length: 15 }, (_, power) => 2 ** power / 1000)

function steps(from: number, to: number, step: number): number[] {
  return Array.from({ length: (to - from) / step + 1 }, (_, index) => from + index * step)
}

/** Close together below a minute, which is the goal of Kubernetes' service level objective. */
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

/** An audit goes slowly on purpose: a small table takes milliseconds, a large one many minutes. */
export const AUDIT_SECONDS: readonly number[] = [0.01, 0.1, 1, 10, 60, 300, 900, 3600]

/** What the event loop may take, and what it must not. */
export const DELAY_SECONDS: readonly number[] = [
  0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024,
]
