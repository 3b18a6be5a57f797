/**
 * What one size of the bench gives, and how it is printed.
 * What could break: the first thirteen fields, their names and their order are promised; new ones go to the end.
 */
import { rounded } from './statistics.ts'

/** null: not measured, because this kernel or this program does not let it be seen. */
export interface BenchResult {
  readonly services: number
  readonly endpoints: number
  /** Process start to complete table. */
  readonly coldStartMs: number | null
  /** The same table written by a C program that does nothing else. */
  readonly floorMs: number | null
  /** API write to kernel. */
  readonly changeP50Ms: number | null
  readonly changeP99Ms: number | null
  /** Every endpoint of 10 % of the Services replaced at once: API write to complete table. */
  readonly burstMs: number | null
  /** Percent of one core. */
  readonly idleCpuPercent: number | null
  readonly rssMiB: number | null
  readonly peakRssMiB: number | null
  /** Netlink messages sent, the audit's not counted. */
  readonly messagesPerChange: number | null
  readonly processesPerChange: number | null
  /** Longest time the event loop was held during changes, a burst and an audit. */
  readonly eventLoopMaxMs: number | null

  /** coldStartMs / floorMs */
  readonly floorRatio: number | null
  readonly datagramsPerChange: number | null
  readonly coldStartMessages: number | null
  readonly coldStartDatagrams: number | null
  readonly coldStartProcesses: number | null
  readonly burstMessages: number | null
  readonly burstDatagrams: number | null
  readonly burstProcesses: number | null
  /** Of the audit's own connection, over the idle measurement. */
  readonly idleMessages: number | null
  readonly idleProcesses: number | null
  /** Growth of RSS over the changes from the 2,000th to the 10,000th; null without --slope. */
  readonly rssSlopeMiB: number | null
  /** Changes that were timed. */
  readonly changes: number
}

type Column = keyof BenchResult

/** Every field, the promised ones first. */
export const FIELDS = [
  'services',
  'endpoints',
  'coldStartMs',
  'floorMs',
  'changeP50Ms',
  'changeP99Ms',
  'burstMs',
  'idleCpuPercent',
  'rssMiB',
  'peakRssMiB',
  'messagesPerChange',
  'processesPerChange',
  'eventLoopMaxMs',
  'floorRatio',
  'datagramsPerChange',
  'coldStartMessages',
  'coldStartDatagrams',
  'coldStartProcesses',
  'burstMessages',
  'burstDatagrams',
  'burstProcesses',
  'idleMessages',
  'idleProcesses',
  'rssSlopeMiB',
  'changes',
] as const satisfies readonly Column[]

/** Digits after the point; what is not named has none. */
const DIGITS: Partial<Record<Column, number>> = {
  coldStartMs: 0,
  floorMs: 1,
  changeP50Ms: 2,
  changeP99Ms: 2,
  burstMs: 0,
  idleCpuPercent: 2,
  rssMiB: 1,
  peakRssMiB: 1,
  messagesPerChange: 2,
  processesPerChange: 2,
  eventLoopMaxMs: 1,
  floorRatio: 2,
  datagramsPerChange: 2,
  rssSlopeMiB: 2,
}

/** The table's columns: the field and its heading. */
const COLUMNS: readonly (readonly [Column, string])[] = [
  ['services', 'services'],
  ['endpoints', 'endpoints'],
  ['coldStartMs', 'cold ms'],
  ['floorMs', 'floor ms'],
  ['floorRatio', 'ratio'],
  ['changeP50Ms', 'p50 ms'],
  ['changeP99Ms', 'p99 ms'],
  ['burstMs', 'burst ms'],
  ['idleCpuPercent', 'idle %'],
  ['rssMiB', 'RSS MiB'],
  ['peakRssMiB', 'peak MiB'],
  ['messagesPerChange', 'msg/change'],
  ['datagramsPerChange', 'dgram/change'],
  ['processesPerChange', 'proc/change'],
  ['eventLoopMaxMs', 'loop ms'],
]

/** One line of JSON: the fields in the order that is promised, with numbers short enough to read. */
export function formatJson(result: BenchResult): string {
  return JSON.stringify(Object.fromEntries(FIELDS.map((name) => [name, rounded(result[name], DIGITS[name] ?? 0)])))
}

/** One aligned table, without a line break at its end. */
export function formatResults(results: readonly BenchResult[]): string {
  const columns = results.some((result) => result.rssSlopeMiB !== null)
    ? [...COLUMNS, ['rssSlopeMiB', 'slope MiB'] as const]
    : COLUMNS
  const rows = [
    columns.map(([, heading]) => heading),
    ...results.map((result) => columns.map(([name]) => cell(result[name], DIGITS[name] ?? 0))),
  ]
  const widths = columns.map((_, index) => Math.max(...rows.map((row) => row[index]?.length ?? 0)))
  return rows.map((row) => row.map((text, index) => text.padStart(widths[index] ?? 0)).join('  ')).join('\n')
}

function cell(value: number | null, digits: number): string {
  return value === null ? '-' : value.toFixed(digits)
}
