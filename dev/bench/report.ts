/** A run as text for people: 120 columns at most, a unit beside every number, a dash for what was not measured. */
import { formatColumns } from '../../src/cli/terminal.ts'
import type { Run } from './record.ts'
import { type BenchResult, digitsOf, type Field, rowsOf, SECTIONS } from './result.ts'

/** Fields whose least and most are shown in two lines below. */
const WITH_RANGE: ReadonlySet<Field> = new Set<Field>(['coldStartMs', 'floorRatio'])

/** The whole run, without a line break at its end. */
export function formatReport(run: Run): string {
  const sizes = [...new Set(run.results.map((result) => result.numbers.services))]
  return [
    formatMachine(run),
    ...sizes.map((services) => formatSize(run.results.filter((result) => result.numbers.services === services))),
    formatTrust(run),
  ].join('\n\n')
}

/** The machine of the measurement, and its calibration. */
export function formatMachine(run: Run): string {
  const { machine, kernel, load, commit } = run
  const place = `kept on processor ${machine.processor} of ${machine.processors} (${machine.model})${machine.hasPriority ? ', before other work' : ''}`
  const lines = [
    ['Commit', commit === null ? 'unknown' : `${commit.hash}${commit.changed ? ', with changes' : ''}`],
    ['Kernel', `${KINDS[kernel.kind]} ${kernel.release ?? ''}, everything ${place}`],
    [
      'Load',
      `other work took ${load.othersPercent.toFixed(1)} % of that processor, the hypervisor ${load.stealPercent.toFixed(1)} %; ` +
        `load average before the run ${load.average.map((one) => one.toFixed(2)).join(' ')}`,
    ],
  ].map(([name = '', text = '']) => `${name.padEnd(8)}${text}`)
  return [...lines, '', ...formatCalibration(run)].join('\n')
}

const KINDS: Readonly<Record<Run['kernel']['kind'], string>> = {
  host: "this machine's own kernel",
  uml: 'user-mode Linux',
  qemu: 'qemu with Linux',
}

function formatCalibration({ calibration }: Run): string[] {
  if (calibration === null) return ['Calibration: not measured']
  const { systemCallUs, processStartMs, wakeUpUs, arithmeticMs } = calibration
  return alignColumns([
    ['Calibration', 'system call', 'process start', 'wake-up', 'arithmetic'],
    ['', ...[systemCallUs, processStartMs * 1000, wakeUpUs, arithmeticMs * 1000].map(formatDuration)],
  ])
}

/** Three significant digits, and the unit. */
export function formatDuration(us: number): string {
  const [value, unit] = us >= 1000 ? [us / 1000, 'ms'] : [us, 'µs']
  return `${value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)} ${unit}`
}

/** Programs beside each other, those of one mode together and kube-proxy's ratio after them. */
export function formatSize(results: readonly BenchResult[]): string {
  const [first] = results
  if (first === undefined) return ''
  const columns = columnsOf(results)
  const title = `${grouped(first.numbers.services ?? 0, 0)} Services with ${first.numbers.endpoints} endpoints each`
  const rows: string[][] = [
    [title, '', ...columns.map((column) => column.mode)],
    ['', '', ...columns.map((column) => column.name)],
  ]
  for (const section of ['clock', 'traffic', 'start', 'change', 'burst', 'rest'] as const) {
    const present = rowsOf(section).filter(([field]) => columns.some((column) => column.value(field) !== null))
    if (present.length === 0) continue
    rows.push([SECTIONS[section]])
    for (const [field, label, unit] of present) {
      rows.push([`  ${label}`, unit, ...columns.map((column) => column.cell(field, unit === 'KiB' ? 1024 : 1))])
      if (!WITH_RANGE.has(field) || columns.every((column) => column.range(field) === undefined)) continue
      for (const [index, name] of ['least', 'most'].entries())
        rows.push([`    ${name}`, unit, ...columns.map((column) => column.range(field)?.[index] ?? '')])
    }
  }
  return alignColumns(rows).join('\n')
}

interface Column {
  readonly mode: string
  readonly name: string
  value(field: Field): number | null
  cell(field: Field, divisor: number): string
  /** The least and the most; undefined where it was measured once. */
  range(field: Field): readonly string[] | undefined
}

function columnsOf(results: readonly BenchResult[]): Column[] {
  return Array.from(Map.groupBy(results, ({ mode }) => mode).values(), (inMode) => [
    ...inMode.map(resultColumn),
    ...inMode.flatMap(ratioColumn),
  ]).flat()
}

function resultColumn(
  { numbers, spread, mode, program, firewall }: BenchResult,
  _index: number,
  inMode: readonly BenchResult[],
): Column {
  return {
    mode,
    // The programs differ, or the firewalls of one program.
    name: inMode.filter((one) => one.program === program).length > 1 ? (firewall ?? program) : program,
    value: (field) => numbers[field],
    cell: (field, divisor) => {
      const value = numbers[field]
      return value === null ? '-' : grouped(value / divisor, digitsOf(field))
    },
    range: (field) => spread[field]?.map((value) => grouped(value, digitsOf(field))),
  }
}

function ratioColumn({ kubeProxyRatio, mode }: BenchResult): Column[] {
  if (kubeProxyRatio === null) return []
  const value = (field: Field): number | null => kubeProxyRatio[field] ?? null
  const cell = (field: Field): string => {
    const ratio = value(field)
    return ratio === null ? '' : formatRatio(ratio)
  }
  return [{ mode, name: 'ratio', value, cell, range: () => undefined }]
}

/** kube-proxy's cost as a multiple of ours. */
const formatRatio = (ratio: number): string => `${grouped(ratio, ratio >= 100 ? 0 : ratio >= 10 ? 1 : 2)}x`

/** `12,345.6` */
function grouped(value: number, digits: number): string {
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}

/** The last lines: whether the figures can be compared. */
export function formatTrust({ reasons }: Run): string {
  if (reasons.length === 0) return 'The machine was quiet enough for the figures to be compared.'
  return ['The machine was too busy: results are not comparable.', ...reasons.map((reason) => `- ${reason}`)].join('\n')
}

/** Lines without trailing spaces: the first column starts at the left, the others end at the right. */
export function alignColumns(rows: readonly (readonly string[])[]): string[] {
  const count = Math.max(0, ...rows.map((row) => row.length))
  const columns = Array.from(
    { length: count },
    (_, index) => ({ title: '', align: index === 0 ? 'left' : 'right' }) as const,
  )
  return formatColumns(columns, rows)
}
