/** Compares two runs: by how much the medians of their ratios differ. */
import type { RecordedResult, RecordedRun } from './record.ts'
import { alignColumns } from './report.ts'
import type { Field } from './result.ts'
import { AGREEMENT } from './trust.ts'

/** A ratio that both runs have. */
export interface ComparedRatio {
  /** `cold start / floor, 1000 Services, ipvs mode, kube-ipvs` */
  readonly name: string
  readonly before: number
  readonly after: number
  /** `after` divided by `before`, minus 1. */
  readonly difference: number
}

/** Which of kube-proxy's ratios are compared. */
const KUBE_PROXY_RATIOS: readonly (readonly [Field, string])[] = [
  ['coldStartMs', 'cold start'],
  ['coldStartCpuMs', 'processor time of a cold start'],
  ['changeP50Ms', 'one change'],
  ['burstMs', 'burst'],
]

/** The ratios of both runs; where there are none, the cold starts themselves. */
export function compareRuns(before: RecordedRun, after: RecordedRun): ComparedRatio[] {
  const pairs = after.results.flatMap((one) => {
    const other = before.results.find(
      (result) =>
        result.services === one.services &&
        result.endpoints === one.endpoints &&
        result.program === one.program &&
        result.mode === one.mode,
    )
    return other === undefined ? [] : [[other, one] as const]
  })
  const ratios = pairs.flatMap(([earlier, later]) => ratiosOf(earlier, later))
  return ratios.length > 0
    ? ratios
    : pairs.flatMap(([earlier, later]) =>
        compared(`cold start in ms, ${nameOf(later)}`, earlier.coldStartMs, later.coldStartMs),
      )
}

function ratiosOf(before: RecordedResult, after: RecordedResult): ComparedRatio[] {
  return [
    ...compared(`cold start / floor, ${nameOf(after)}`, before.floorRatio, after.floorRatio),
    ...KUBE_PROXY_RATIOS.flatMap(([field, name]) =>
      compared(
        `${name}, kube-proxy / kube-ipvs, ${after.services} Services, ${after.mode} mode`,
        before.kubeProxyRatio?.[field],
        after.kubeProxyRatio?.[field],
      ),
    ),
  ]
}

const nameOf = ({ services, mode, program }: RecordedResult): string => `${services} Services, ${mode} mode, ${program}`

function compared(name: string, before: number | null | undefined, after: number | null | undefined): ComparedRatio[] {
  if (before === null || before === undefined || after === null || after === undefined || before === 0) return []
  return [{ name, before, after, difference: after / before - 1 }]
}

/** The largest difference, as a share; undefined when the runs have nothing in common. */
export function largestDifference(ratios: readonly ComparedRatio[]): number | undefined {
  return ratios.length === 0 ? undefined : Math.max(...ratios.map((ratio) => Math.abs(ratio.difference)))
}

export const agrees = (ratios: readonly ComparedRatio[]): boolean => (largestDifference(ratios) ?? 1) <= AGREEMENT

/** A table, a last line that says whether the runs agree, and whether they do. */
export function formatComparison(
  before: RecordedRun,
  after: RecordedRun,
): { readonly text: string; readonly agree: boolean } {
  const ratios = compareRuns(before, after)
  const largest = largestDifference(ratios)
  if (largest === undefined) return { text: 'The two runs have no size, program and mode in common.', agree: false }
  const rows = [
    ['', runName(before), runName(after), 'difference'],
    ...ratios.map((ratio) => [
      ratio.name,
      ratio.before.toFixed(2),
      ratio.after.toFixed(2),
      `${ratio.difference >= 0 ? '+' : ''}${(ratio.difference * 100).toFixed(1)} %`,
    ]),
  ]
  const verdict = `${agrees(ratios) ? 'The runs agree' : 'The runs do not agree'} within ${AGREEMENT * 100} %: the largest difference is ${(largest * 100).toFixed(1)} %.`
  const doubts = [before, after].filter((run) => !run.trusted).length
  const lines = [
    ...alignColumns(rows),
    '',
    ...(doubts > 0 ? [`${doubts === 1 ? 'One of the runs' : 'Both runs'} measured a machine that was too busy.`] : []),
    verdict,
  ]
  return { text: lines.join('\n'), agree: agrees(ratios) }
}

const runName = ({ at, commit }: RecordedRun): string =>
  `${at.slice(0, 16)} ${commit === null ? '' : `${commit.hash.slice(0, 7)}${commit.changed ? '+' : ''}`}`.trim()
