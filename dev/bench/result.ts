/**
 * The figures of one size, and the result of its repetitions. The names and the order of the first thirteen fields are a
 * promise to readers of the JSON; new fields are added at the end.
 */
import type { Beside } from './beside-burst.ts'
import { medianUncertainty, percentile, rounded } from './statistics.ts'

export type Mode = 'ipvs' | 'iptables'

/** nftables mode is kube-proxy's alone. */
export type AnyMode = Mode | 'nftables'

/** A program in one of its modes. `other`: the one that --proxy names. */
export interface Subject {
  readonly program: 'kube-ipvs' | 'kube-proxy' | 'other'
  readonly mode: Mode
}

/**
 * Every number of a result with the digits that are printed after its point, the promised ones first. null in a result: not
 * measured, because this kernel or this program does not show it.
 */
const DIGITS = {
  services: 0,
  endpoints: 0,
  /** Process start to complete table. */
  coldStartMs: 0,
  /** The same table written by a C program that does nothing else. */
  floorMs: 1,
  /** API write to kernel. */
  changeP50Ms: 2,
  changeP99Ms: 2,
  /** Every endpoint of 10 % of the Services replaced at once: API write to complete table. */
  burstMs: 0,
  /** Percent of one processor, the program and its ended children. */
  idleCpuPercent: 2,
  /** After the idle measurement. */
  rssMiB: 1,
  peakRssMiB: 1,
  /** Netlink messages sent, the audit's not counted. */
  messagesPerChange: 2,
  /** Processes and threads that were started on this kernel meanwhile. */
  processesPerChange: 2,
  /** Longest time the event loop was blocked during changes, a burst and an audit. */
  eventLoopMaxMs: 1,

  /** coldStartMs / floorMs */
  floorRatio: 2,
  datagramsPerChange: 2,
  coldStartMessages: 0,
  coldStartDatagrams: 0,
  coldStartProcesses: 0,
  burstProcesses: 0,
  idleProcesses: 0,
  /** Growth of RSS over the last four fifths of the changes (--slope-changes, default 10,000); null without --slope. */
  rssSlopeMiB: 2,
  /** Changes that were timed. */
  changes: 0,

  /** The program's own processor time until the table was complete, its ended children's included. */
  coldStartCpuMs: 0,
  /** The API server's processor time meanwhile: it runs on the same processor. */
  coldStartApiCpuMs: 0,
  /** Counted by strace in a cold start that is not timed, children included. */
  coldStartSystemCalls: 0,
  coldStartMinorFaults: 0,
  coldStartMajorFaults: 0,
  coldStartContextSwitches: 0,
  /** Bytes that the API server wrote to the program. */
  coldStartApiBytes: 0,
  cpuMsPerChange: 2,
  systemCallsPerChange: 1,
  minorFaultsPerChange: 1,
  contextSwitchesPerChange: 1,
  apiBytesPerChange: 0,
  burstCpuMs: 0,
  rssAnonMiB: 1,
  rssFileMiB: 1,
  /** Pss: pages that other processes use too count in part. */
  pssMiB: 1,
  /** Voluntary context switches of all threads over the idle measurement, a second: how often the program was woken. */
  idleWakeUpsPerSecond: 2,
  /** Seconds of the idle measurement. */
  idleSeconds: 0,
} as const satisfies Readonly<Record<string, number>>

export type Field = keyof typeof DIGITS
export type Numbers = Readonly<Record<Field, number | null>>

/** Every field in its order. */
export const FIELDS = Object.keys(DIGITS) as readonly Field[] // the keys of the literal above

export const digitsOf = (field: Field): number => DIGITS[field]

/** One boot's numbers: what was not measured in it is absent. */
export type Measured = Partial<Numbers> & {
  /** Changes beside other work (--burst-with-probe). */
  readonly fairness?: readonly Beside[]
}

/** The least and the most of the repetitions. */
export type Range = readonly [least: number, most: number]

/** The median of each number over the repetitions. */
export interface BenchResult extends Subject {
  readonly numbers: Numbers
  /** Of each number that was measured more than once. */
  readonly spread: Readonly<Partial<Record<Field, Range>>>
  /** kube-proxy's number divided by this program's, the median over the repetitions; null unless both were measured. */
  readonly kubeProxyRatio: Readonly<Partial<Record<Field, number>>> | null
  /** The least and the most of those ratios. */
  readonly kubeProxyRatioSpread: Readonly<Partial<Record<Field, Range>>> | null
  /** The uncertainty of the median ratios of cold starts: see `medianUncertainty`. */
  readonly uncertainty: { readonly floorRatio: number | null; readonly kubeProxyColdStart: number | null }
  /** Changes beside other work; null without --burst-with-probe. */
  readonly fairness: readonly Beside[] | null
  /** How often it was started for a measurement. */
  readonly coldStarts: number
}

/** A program's repetitions, in the order in which they were measured. */
export interface Repetitions extends Subject {
  readonly measured: readonly Measured[]
}

/** The fields that are compared as a ratio of two programs. */
export const COMPARED: readonly Field[] = [
  'coldStartMs',
  'changeP50Ms',
  'changeP99Ms',
  'burstMs',
  'idleCpuPercent',
  'rssMiB',
  'rssAnonMiB',
  'rssFileMiB',
  'pssMiB',
  'peakRssMiB',
  'coldStartCpuMs',
  'coldStartSystemCalls',
  'coldStartMinorFaults',
  'coldStartContextSwitches',
  'coldStartProcesses',
  'coldStartApiBytes',
  'cpuMsPerChange',
  'systemCallsPerChange',
  'minorFaultsPerChange',
  'contextSwitchesPerChange',
  'apiBytesPerChange',
  'burstCpuMs',
]

/** @param floors of the same size, one a repetition @param kubeProxy in the same mode, when it was measured beside this one */
export function summarise(
  own: Repetitions,
  floors: readonly number[],
  kubeProxy: Repetitions | undefined,
): BenchResult {
  const floorMs = percentile(floors, 0.5)
  // The floor is short and noisy, so each cold start is divided by the median of all floors.
  const measured = own.measured.map((one) =>
    floorMs === null || one.coldStartMs === undefined || one.coldStartMs === null
      ? one
      : { ...one, floorRatio: one.coldStartMs / floorMs },
  )
  const valuesOf = (field: Field): readonly number[] =>
    field === 'floorMs' ? floors : measured.map((one) => one[field] ?? null).filter((value) => value !== null)
  const spread: Partial<Record<Field, Range>> = {}
  for (const field of FIELDS) {
    const values = valuesOf(field)
    if (values.length > 1) spread[field] = rangeOf(values)
  }
  const ratios = kubeProxy === undefined ? null : ratiosOf(own, kubeProxy)
  return {
    program: own.program,
    mode: own.mode,
    numbers: Object.fromEntries(FIELDS.map((field) => [field, percentile(valuesOf(field), 0.5)])) as Numbers, // of every field
    spread,
    kubeProxyRatio: ratios?.median ?? null,
    kubeProxyRatioSpread: ratios?.spread ?? null,
    uncertainty: {
      floorRatio: medianUncertainty(valuesOf('floorRatio')),
      kubeProxyColdStart: ratios === null ? null : medianUncertainty(ratios.coldStarts),
    },
    fairness: own.measured.find(({ fairness }) => fairness !== undefined)?.fairness ?? null,
    coldStarts: own.measured.length,
  }
}

interface Ratios {
  readonly median: Readonly<Partial<Record<Field, number>>>
  readonly spread: Readonly<Partial<Record<Field, Range>>>
  readonly coldStarts: readonly number[]
}

/** Ratios of neighbouring repetitions: a machine that is slow for a while slows both down. */
function ratiosOf(own: Repetitions, kubeProxy: Repetitions): Ratios {
  const median: Partial<Record<Field, number>> = {}
  const spread: Partial<Record<Field, Range>> = {}
  const ratiosIn = (field: Field): readonly number[] =>
    own.measured.flatMap((one, index) => {
      const ours = one[field] ?? null
      const theirs = kubeProxy.measured[index]?.[field] ?? null
      return ours === null || theirs === null || ours === 0 ? [] : [theirs / ours]
    })
  for (const field of COMPARED) {
    const ratios = ratiosIn(field)
    const middle = percentile(ratios, 0.5)
    if (middle !== null) median[field] = middle
    if (ratios.length > 1) spread[field] = rangeOf(ratios)
  }
  return { median, spread, coldStarts: ratiosIn('coldStartMs') }
}

const rangeOf = (values: readonly number[]): Range => [Math.min(...values), Math.max(...values)]

/** A result as one plain object: the numbers in the order that is promised and short enough to read, then the rest. */
export function plainResult({ numbers, ...rest }: BenchResult): Record<string, unknown> {
  const short = (ranges: BenchResult['spread'] | null, digits?: number): Record<string, unknown> | null =>
    ranges &&
    Object.fromEntries(
      FIELDS.flatMap((field) => {
        const range = ranges[field]
        return range === undefined
          ? []
          : [[field, range.map((value) => rounded(value, digits ?? Math.max(1, digitsOf(field))))]]
      }),
    )
  return {
    ...Object.fromEntries(FIELDS.map((field) => [field, rounded(numbers[field], digitsOf(field))])),
    program: rest.program,
    mode: rest.mode,
    coldStarts: rest.coldStarts,
    uncertainty: {
      floorRatio: rounded(rest.uncertainty.floorRatio, 3),
      kubeProxyColdStart: rounded(rest.uncertainty.kubeProxyColdStart, 3),
    },
    spread: short(rest.spread),
    kubeProxyRatio:
      rest.kubeProxyRatio &&
      Object.fromEntries(Object.entries(rest.kubeProxyRatio).map(([field, ratio]) => [field, rounded(ratio, 3)])),
    kubeProxyRatioSpread: short(rest.kubeProxyRatioSpread, 3),
    ...(rest.fairness === null ? {} : { fairness: rest.fairness }),
  }
}

/** One line of JSON. */
export const formatJson = (result: BenchResult): string => JSON.stringify(plainResult(result))
