/**
 * The figures of one size, and the result of its repetitions. The names and the order of the first
 * thirteen fields are a promise to readers of the JSON; new fields are added at the end.
 */
import { percentile, rounded } from './statistics.ts'

export type Mode = 'ipvs' | 'iptables'
export type Firewall = 'iptables' | 'nftables'

/** A program in one of its modes. */
export interface Subject {
  readonly program: 'kube-ipvs' | 'kube-proxy'
  readonly mode: Mode
  /** `kubeIPVS.firewall` of our program in ipvs mode; otherwise absent. */
  readonly firewall?: Firewall
}

/** The parts of a report. */
export const SECTIONS = {
  clock: 'By the clock',
  traffic: 'New connections through one ClusterIP',
  start: 'Cold start: what it took',
  change: 'One change: what it took',
  burst: 'Burst: what it took',
  rest: 'At rest',
} as const
type Section = keyof typeof SECTIONS | ''

/**
 * Every number of a result, the promised ones first: digits after its point, the section of the
 * report, its name there and its unit. null in a result: not measured, because this kernel or this
 * program does not show it. Processor time and page faults include children that have ended.
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
  coldStartProcesses: [0, 'start', 'processes and threads started', ''],
  burstProcesses: [0, 'burst', 'processes and threads started', ''],
  idleProcesses: [0, 'rest', 'processes and threads started', ''],
  /** That were timed. */
  changes: [0, '', '', ''],
  coldStartCpuMs: [0, 'start', 'processor time of the program', 'ms'],
  coldStartApiCpuMs: [0, 'start', 'processor time of the API server', 'ms'],
  coldStartMinorFaults: [0, 'start', 'page faults', ''],
  /** In bytes. */
  coldStartApiBytes: [0, 'start', 'read from the API server', 'KiB'],
  cpuMsPerChange: [2, 'change', 'processor time of the program', 'ms'],
  apiBytesPerChange: [0, 'change', 'read from the API server', 'B'],
  burstCpuMs: [0, 'burst', 'processor time of the program', 'ms'],
  rssAnonMiB: [1, 'rest', 'memory (RSS), anonymous', 'MiB'],
  pssMiB: [1, 'rest', 'memory, shared pages in part (PSS)', 'MiB'],
  /** Voluntary context switches: how often the program was woken. */
  idleWakeUpsPerSecond: [2, 'rest', 'wake-ups of all threads a second', ''],
  idleSeconds: [0, 'rest', 'measured for', 's'],
  /**
   * Rules of KUBE-SERVICES that the kernel compares before that of the measured Service; null in
   * ipvs mode, which has no such list.
   */
  rulesBefore: [0, 'traffic', 'rules of other Services before', ''],
  latencyP50Us: [0, 'traffic', 'connect, request, response, median', 'µs'],
  latencyP99Us: [0, 'traffic', 'connect, request, response, 99th percentile', 'µs'],
  connectionsPerSecond: [0, 'traffic', 'connections a second by 8 clients', ''],
} as const satisfies Readonly<Record<string, readonly [digits: number, section: Section, label: string, unit: string]>>

export type Field = keyof typeof TABLE
export type Numbers = Readonly<Record<Field, number | null>>

/** Every field in its order. */
export const FIELDS = Object.keys(TABLE) as readonly Field[] // the keys of the literal above

export const digitsOf = (field: Field): number => TABLE[field][0]
/** The fields of a section, with their names and units. */
export const rowsOf = (section: Section): (readonly [field: Field, label: string, unit: string])[] =>
  FIELDS.flatMap((field) => (TABLE[field][1] === section ? [[field, TABLE[field][2], TABLE[field][3]] as const] : []))

/** One boot's numbers: what was not measured in it is absent. */
export type Measured = Partial<Numbers>

/** The least and the most of the repetitions. */
export type Range = readonly [least: number, most: number]

/** The median of each number over the repetitions. */
export interface BenchResult extends Subject {
  readonly numbers: Numbers
  /** Of each number that was measured more than once. */
  readonly spread: Readonly<Partial<Record<Field, Range>>>
  /** kube-proxy's number divided by this program's, the median over the repetitions; null unless both were measured. */
  readonly kubeProxyRatio: Readonly<Partial<Record<Field, number>>> | null
  /** How often it was started for a measurement. */
  readonly coldStarts: number
}

/** A program's repetitions, in the order in which they were measured. */
export interface Repetitions extends Subject {
  readonly measured: readonly Measured[]
}

/** What two programs do not have a ratio of: it is the same of both, or no cost. */
const GIVEN: ReadonlySet<Field> = new Set<Field>([
  'services',
  'endpoints',
  'changes',
  'idleSeconds',
  'rulesBefore',
  'connectionsPerSecond',
])

/**
 * @param floors of the same size, one a repetition @param kubeProxy in the same mode, when it was
 * measured beside this one
 */
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
  return {
    program: own.program,
    mode: own.mode,
    ...(own.firewall === undefined ? {} : { firewall: own.firewall }),
    numbers: Object.fromEntries(FIELDS.map((field) => [field, percentile(valuesOf(field), 0.5)])) as Numbers, // of every field
    spread,
    kubeProxyRatio: kubeProxy === undefined ? null : ratiosOf(own, kubeProxy),
    coldStarts: own.measured.length,
  }
}

/** Medians of the ratios of neighbouring repetitions: a machine that is slow for a while slows both down. */
function ratiosOf(own: Repetitions, kubeProxy: Repetitions): Readonly<Partial<Record<Field, number>>> {
  const medians: Partial<Record<Field, number>> = {}
  for (const field of FIELDS.filter((one) => !GIVEN.has(one))) {
    const ratios = own.measured.flatMap((one, index) => {
      const [ours, theirs] = [one[field] ?? null, kubeProxy.measured[index]?.[field] ?? null]
      return ours === null || theirs === null || ours === 0 ? [] : [theirs / ours]
    })
    const median = percentile(ratios, 0.5)
    if (median !== null) medians[field] = median
  }
  return medians
}

const rangeOf = (values: readonly number[]): Range => [Math.min(...values), Math.max(...values)]

/** A result as one line of JSON: the numbers in the order that is promised and short enough to read, then the rest. */
export function formatJson({ numbers, spread, kubeProxyRatio, ...rest }: BenchResult): string {
  const short = (field: Field, value: number | null): number | null => rounded(value, digitsOf(field))
  return JSON.stringify({
    ...Object.fromEntries(FIELDS.map((field) => [field, short(field, numbers[field])])),
    ...rest,
    spread: Object.fromEntries(
      FIELDS.flatMap((field) => (spread[field] ? [[field, spread[field].map((value) => short(field, value))]] : [])),
    ),
    kubeProxyRatio:
      kubeProxyRatio &&
      Object.fromEntries(Object.entries(kubeProxyRatio).map(([field, ratio]) => [field, rounded(ratio, 3)])),
  })
}
