/** How much a run of the tests covers: a quick one by default, everything with `npm test -- --all` and in CI. */

/** In the environment of a test process: `1` for a run that covers everything. */
export const FULL_RUN_VARIABLE = 'KUBE_IPVS_FULL_RUN'

/** The core of the kernel matrix: other tests cover the same on the kernel of a quick run. */
const CORE = 'test/kernel/core/'

/** Whether a run has this file: one that names files has those, and a quick one leaves out the core. */
export function isChosen(file: string, patterns: readonly string[], isFull: boolean): boolean {
  if (patterns.length > 0) return patterns.some((pattern) => file.includes(pattern))
  return isFull || !file.startsWith(CORE)
}
