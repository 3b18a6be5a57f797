/** One cell of the experiment: one program in one of its ways at one number of Services, measured in one boot, and the file with a line of JSON for each. Pure. */
import type { Calibration } from './calibration.ts'
import type { Disturbance, Machine } from './machine.ts'
import type { Limits } from './task.ts'
import type { Run } from './record.ts'
import type { Measured } from './result.ts'
import { isSeriesName, SERIES_NAMES, type SeriesName } from './series.ts'

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
  readonly limits: Limits
  /** The maximum number of changes. */
  readonly changes: number
  /** null after a failure. */
  readonly measured: Measured | null
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
  let cell: Partial<Cell> | null
  try {
    cell = JSON.parse(line) as Partial<Cell> | null // checked below
  } catch {
    throw new Error(`${place} is not JSON`)
  }
  if (!isSeriesName(String(cell?.series)) || typeof cell?.services !== 'number' || cell.measured === undefined)
    throw new Error(
      `${place} is not a cell of this bench: it has no known series, no number of Services or nothing measured`,
    )
  return cell as Cell // what formatCells writes
}
