/**
 * Whether the figures of a run can be compared: the bench gives reasons when the machine was too busy. The median ratios of
 * two runs without such reasons agree within AGREEMENT.
 */
import type { Calibration } from './calibration.ts'
import type { Disturbance } from './machine.ts'
import type { BenchResult, Range } from './result.ts'
import { percentile } from './statistics.ts'

/** The share by which medians of ratios of two runs may differ. */
export const AGREEMENT = 0.1

/** Percent of the measured processor that other work may take in the median boot. */
const MOST_TAKEN_PERCENT = 3
/** The largest allowed ratio of two boots of one run, in the cost of a system call or of arithmetic. */
const MOST_CALIBRATION_FACTOR = 1.35

export interface Observed {
  /** One for each boot. */
  readonly disturbances: readonly Disturbance[]
  readonly calibrations: readonly Calibration[]
  readonly results: readonly BenchResult[]
}

/** Why the run cannot be compared, in whole clauses; empty when it can. */
export function reasonsAgainst({ disturbances, calibrations, results }: Observed): string[] {
  const reasons: string[] = []
  const others = percentile(
    disturbances.map((one) => one.othersPercent),
    0.5,
  )
  const steal = percentile(
    disturbances.map((one) => one.stealPercent),
    0.5,
  )
  if (others !== null && others > MOST_TAKEN_PERCENT)
    reasons.push(`other work took ${others.toFixed(1)} % of the processor that was measured on`)
  if (steal !== null && steal > MOST_TAKEN_PERCENT)
    reasons.push(`the hypervisor took ${steal.toFixed(1)} % of the processor that was measured on`)
  for (const [name, pick] of CALIBRATED) {
    const range = rangeOf(calibrations.map(pick))
    if (range !== undefined && range[1] > range[0] * MOST_CALIBRATION_FACTOR)
      reasons.push(`${name} took from ${range[0].toFixed(1)} to ${range[1].toFixed(1)} µs in the boots of this run`)
  }
  for (const result of results) reasons.push(...unsteady(result))
  return reasons
}

const CALIBRATED: readonly (readonly [name: string, pick: (one: Calibration) => number])[] = [
  ['a system call', (one) => one.systemCallUs],
  ['arithmetic', (one) => one.arithmeticUs],
]

/** Ratios whose repetitions differ so much that another run may well have another median. */
function unsteady({ numbers, spread, uncertainty, kubeProxyRatioSpread, program, mode }: BenchResult): string[] {
  const ratios: readonly (readonly [name: string, uncertainty: number | null, range: Range | undefined])[] = [
    [`the cold start of ${program} by the floor`, uncertainty.floorRatio, spread.floorRatio],
    ['the cold start of kube-proxy by ours', uncertainty.kubeProxyColdStart, kubeProxyRatioSpread?.coldStartMs],
  ]
  return ratios.flatMap(([name, share, range]) =>
    share === null || range === undefined || share <= AGREEMENT
      ? []
      : [
          `${name} is uncertain by ${(share * 100).toFixed(0)} % (from ${range[0].toFixed(1)} to ${range[1].toFixed(1)}) ` +
            `at ${numbers.services} Services in ${mode} mode`,
        ],
  )
}

function rangeOf(values: readonly number[]): Range | undefined {
  return values.length === 0 ? undefined : [Math.min(...values), Math.max(...values)]
}
