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

/** The parts of a report. */
export const SECTIONS = {
  clock: 'By the clock',
  start: 'Cold start: what it took',
  change: 'One change: what it took',
  burst: 'Burst: what it took',
  rest: 'At rest',
} as const
type Section = keyof typeof SECTIONS | ''

/**
 * Every number of a result, the promised ones first: digits after its point, the section of the report, its name there and its unit. null in a
 * result: not measured, because this kernel or this program does not show it. Processor time and page faults include children that have ended.
 */
const TABLE = {
  services: [0, '', '', ''],
  endpoints: [0, '', '', ''],
  coldStartMs: [0, 'clock', 'cold start, until the table is complete', 'ms'],
  floorMs: [1, 'clock', 'floor: raw netlink from C', 'ms'],
  changeP50Ms: [2, 'clock', 'one change, API to kernel, median', 'ms'],
  changeP99Ms: [2, 'clock', 'one change, 99th percentile', 'ms'],
  burstMs: [0, 'clock', 'burst, all endpoints of 10 % of Services', 'ms'],
  idleCpuPercent: [2, 'rest', 'processor time', '%'],
  rssMiB: [1, 'rest', 'memory (RSS)', 'MiB'],
  peakRssMiB: [1, 'rest', 'most memory so far (peak RSS)', 'MiB'],
  /** Those of audits are not counted. */
  messagesPerChange: [2, 'change', 'netlink messages', ''],
  processesPerChange: [2, 'change', 'processes and threads started', ''],
  /** During changes, a burst and an audit. */
  eventLoopMaxMs: [1, 'clock', 'event loop held for at most', 'ms'],

  floorRatio: [2, 'clock', 'cold start / floor', ''],
  datagramsPerChange: [2, 'change', 'netlink datagrams', ''],
  coldStartMessages: [0, 'start', 'netlink messages', ''],
  coldStartDatagrams: [0, 'start', 'netlink datagrams', ''],
  coldStartProcesses: [0, 'start', 'processes and threads started', ''],
  burstProcesses: [0, 'burst', 'processes and threads started', ''],
  idleProcesses: [0, 'rest', 'processes and threads started', ''],
  /** null without --slope. */
  rssSlopeMiB: [2, 'rest', 'growth over 8,000 changes after 2,000', 'MiB'],
  /** That were timed. */
  changes: [0, '', '', ''],
  coldStartCpuMs: [0, 'start', 'processor time of the program', 'ms'],
  coldStartApiCpuMs: [0, 'start', 'processor time of the API server', 'ms'],
  /** Counted by strace in a cold start that is not timed. */
  coldStartSystemCalls: [0, 'start', 'system calls', ''],
  coldStartMinorFaults: [0, 'start', 'page faults', ''],
  coldStartMajorFaults: [0, 'start', 'page faults that read from a disk', ''],
  coldStartContextSwitches: [0, 'start', 'context switches', ''],
  /** In bytes. */
  coldStartApiBytes: [0, 'start', 'read from the API server', 'KiB'],
  cpuMsPerChange: [2, 'change', 'processor time of the program', 'ms'],
  systemCallsPerChange: [1, 'change', 'system calls', ''],
  minorFaultsPerChange: [1, 'change', 'page faults', ''],
  contextSwitchesPerChange: [1, 'change', 'context switches', ''],
  apiBytesPerChange: [0, 'change', 'read from the API server', 'B'],
  burstCpuMs: [0, 'burst', 'processor time of the program', 'ms'],
  rssAnonMiB: [1, 'rest', 'memory (RSS), anonymous', 'MiB'],
  rssFileMiB: [1, 'rest', 'memory (RSS), backed by files', 'MiB'],
  pssMiB: [1, 'rest', 'memory, shared pages in part (PSS)', 'MiB'],
  /** Voluntary context switches: how often the program was woken. */
  idleWakeUpsPerSecond: [2, 'rest', 'wake-ups of all threads a second', ''],
  idleSeconds: [0, 'rest', 'measured for', 's'],
} as const satisfies Readonly<Record<string, readonly [digits: number, section: Section, label: string, unit: string]>>

export type Field = keyof typeof TABLE
export type Numbers = Readonly<Record<Field, number | null>>

/** Every field in its order. */
export const FIELDS = Object.keys(TABLE) as readonly Field[] // the keys of the literal above

export const digitsOf = (field: Field): number => TABLE[field][0]
/** The fields of a section, with their names and units. */
export const rowsOf = (section: Section): (readonly [field: Field, label: string, unit: string])[] =>
  FIELDS.flatMap((field) => (TABLE[field][1] === section ? [[field, TABLE[field][2], TABLE[field][3]] as const] : []))

/** What the phase `traffic` measures, with the digits that a cell keeps. */
const TRAFFIC = {
  /** Rules of KUBE-SERVICES before that of the measured Service; null in ipvs mode, which has no such list. */
  rulesBefore: 0,
  /** From connect(2) to the end of the response on a new connection. */
  latencyP50Us: 1,
  latencyP99Us: 1,
  connectionsPerSecond: 1,
} as const
export type Measure = Field | keyof typeof TRAFFIC

/** `moreThan`: the limit was reached before the value was known. null: not measured. */
export type Figure = number | { readonly moreThan: number } | null

/** One boot's figures: what was not measured in it is absent. */
export type Measured = Readonly<Partial<Record<Measure, Figure>>> & {
  /** Changes beside other work (--burst-with-probe). */
  readonly fairness?: readonly Beside[]
}

/** Short enough for a file. */
export function roundedMeasured(measured: Measured): Measured {
  const digits: Readonly<Record<Measure, number>> = {
    ...(Object.fromEntries(FIELDS.map((field) => [field, digitsOf(field)])) as Record<Field, number>), // of every field
    ...TRAFFIC,
  }
  const short: Partial<Record<Measure, Figure>> = {}
  for (const name of Object.keys(digits) as Measure[]) {
    const figure = measured[name]
    if (typeof figure === 'number') short[name] = rounded(figure, digits[name])
    else if (figure) short[name] = { moreThan: rounded(figure.moreThan, digits[name]) ?? 0 }
    else if (figure === null) short[name] = null
  }
  return short
}

/** One boot's numbers. */
export type MeasuredNumbers = Partial<Numbers> & Pick<Measured, 'fairness'>

/** Throws where a limit was reached: what would be compared with it is not known. */
export function numbersOf({ fairness, ...figures }: Measured): MeasuredNumbers {
  for (const [name, figure] of Object.entries(figures))
    if (figure !== null && typeof figure !== 'number') throw new Error(`${name} is more than ${figure.moreThan}`)
  return { ...(figures as Partial<Numbers>), ...(fairness === undefined ? {} : { fairness }) } // numbers, as checked
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
  readonly measured: readonly MeasuredNumbers[]
}

/** What two programs do not have a ratio of, because it is the same of both. */
const GIVEN: ReadonlySet<Field> = new Set<Field>(['services', 'endpoints', 'changes', 'idleSeconds'])

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
  for (const field of FIELDS) {
    if (GIVEN.has(field)) continue
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
