/**
 * One cell of the measurement over size: one program in one of its ways at one number of Services, measured in one boot, and the file
 * with a line of JSON for each cell. Pure.
 */
import type { Calibration } from './calibration.ts'
import type { Disturbance, Machine } from './machine.ts'
import type { Run } from './record.ts'
import { isSeriesName, SERIES_NAMES, type SeriesName } from './series.ts'

/** `moreThan`: the limit was reached before the value was known. null: not measured, because an earlier part took too long. */
export type Figure = number | { readonly moreThan: number } | null

export interface CellLimits {
  /** For the cold start. */
  readonly coldStartSeconds: number
  /** For one change. */
  readonly changeSeconds: number
  /** No further change begins after so long. */
  readonly changesSeconds: number
  /** The pause between two changes. */
  readonly betweenChangesMs: number
  /** How long the program is watched at rest. */
  readonly idleSeconds: number
}

export interface CellMeasured {
  /** From the start of the process until the table is complete. */
  readonly coldStartMs: Figure
  /** Processor time of the program until then, its ended children's included. */
  readonly coldStartCpuMs: number | null
  /** Changes that reached the kernel. */
  readonly changes: number
  /** From the write in the API server until the kernel has the endpoint; with fewer than 100 changes the 99th percentile is the slowest. */
  readonly changeP50Ms: Figure
  readonly changeP99Ms: Figure
  /** Percent of one processor at rest, the program's and that of its children that ended meanwhile; in steps of 10 ms. */
  readonly idleCpuPercent: number | null
  /** At the end of the rest, without children. */
  readonly rssMiB: number | null
  readonly rssAnonMiB: number | null
  readonly rssFileMiB: number | null
  readonly pssMiB: number | null
  readonly peakRssMiB: Figure
}

/** What the guest prints. */
export type CellOutcome = { readonly measured: CellMeasured } | { readonly failure: string }

export interface CellName {
  readonly series: SeriesName
  readonly services: number
  readonly endpoints: number
}

export interface Cell extends CellName, Pick<Run, 'at' | 'commit' | 'kernel'> {
  /** What the program says of itself: `kube-ipvs 0.1.0`, `Kubernetes v1.36.3`. */
  readonly version: string
  /** The Node that ran the API server, the bench and, of our series, the program. */
  readonly node: string
  readonly machine: Machine
  readonly load: Disturbance & { readonly average: readonly number[] }
  readonly calibration: Calibration | null
  readonly limits: CellLimits
  /** The maximum number of changes. */
  readonly changes: number
  /** null after a failure. */
  readonly measured: CellMeasured | null
  /** Why there is nothing: the program ended, the boot ran out of memory. */
  readonly failure: string | null
}

const keyOf = ({ series, services, endpoints }: CellName): string => `${series} ${services} ${endpoints}`

/** The cell with this name, if the file has it. */
export function cellOf(cells: readonly Cell[], name: CellName): Cell | undefined {
  return cells.find((cell) => keyOf(cell) === keyOf(name))
}

/** The same cells with this one, in place of an earlier one of the same name; by endpoints, size and series. */
export function withCell(cells: readonly Cell[], cell: Cell): Cell[] {
  const rank = ({ series }: Cell): number => SERIES_NAMES.indexOf(series)
  return [...cells.filter((one) => keyOf(one) !== keyOf(cell)), cell].toSorted(
    (a, b) => a.endpoints - b.endpoints || a.services - b.services || rank(a) - rank(b),
  )
}

/** One line of JSON for each cell. */
export const formatCells = (cells: readonly Cell[]): string => cells.map((cell) => `${JSON.stringify(cell)}\n`).join('')

/** Throws an error with the number of the first invalid line. @param file its name, for the error */
export function parseCells(text: string, file: string): Cell[] {
  return text.split('\n').flatMap((line, index) => (line === '' ? [] : [parseCell(line, `${file}:${index + 1}`)]))
}

function parseCell(line: string, place: string): Cell {
  let cell: unknown
  try {
    cell = JSON.parse(line)
  } catch {
    throw new Error(`${place} is not JSON`)
  }
  if (
    typeof cell !== 'object' ||
    cell === null ||
    !('series' in cell && typeof cell.series === 'string' && isSeriesName(cell.series)) ||
    !('services' in cell && typeof cell.services === 'number') ||
    !('measured' in cell && typeof cell.measured === 'object')
  )
    throw new Error(
      `${place} is not a cell of this bench: it has no known series, no number of Services or nothing measured`,
    )
  return cell as Cell // what formatCells writes
}
