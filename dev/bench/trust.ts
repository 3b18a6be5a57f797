/** Whether the figures of a run can be compared: the bench gives reasons when the machine was too busy. */
import type { Calibration } from './calibration.ts'
import type { Disturbance } from './machine.ts'
import { percentile } from './statistics.ts'

/** Percent of the measured processor that other work may take in the median boot. */
const MOST_TAKEN_PERCENT = 3
/** The largest allowed ratio of two boots of one run, in the cost of a system call or of arithmetic. */
const MOST_CALIBRATION_FACTOR = 1.35

/**
 * Why the run cannot be compared, in whole clauses; empty when it can. @param disturbances one for
 * each boot, as the calibrations
 */
export function reasonsAgainst(disturbances: readonly Disturbance[], calibrations: readonly Calibration[]): string[] {
  const taken = [
    ['other work', disturbances.map((one) => one.othersPercent)],
    ['the hypervisor', disturbances.map((one) => one.stealPercent)],
  ] as const
  const calibrated = [
    ['a system call', 'µs', calibrations.map((one) => one.systemCallUs)],
    ['arithmetic', 'ms', calibrations.map((one) => one.arithmeticMs)],
  ] as const
  return [
    ...taken.flatMap(([who, percents]) => {
      const percent = percentile(percents, 0.5) ?? 0
      return percent <= MOST_TAKEN_PERCENT
        ? []
        : [`${who} took ${percent.toFixed(1)} % of the processor that was measured on`]
    }),
    ...calibrated.flatMap(([name, unit, costs]) => {
      const [least, most] = [Math.min(...costs), Math.max(...costs)]
      return costs.length === 0 || most <= least * MOST_CALIBRATION_FACTOR
        ? []
        : [`${name} took from ${least.toFixed(1)} to ${most.toFixed(1)} ${unit} in the boots of this run`]
    }),
  ]
}
