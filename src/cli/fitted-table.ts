/**
 * Tables that fit a terminal of any width: columns that matter least are left out, long texts are
 * broken into lines or shortened, and where even that does not help each row becomes a small block.
 * Output that is no terminal has no width, and gets everything.
 */
import { printable } from '../values/quote.ts'
import { type Cell, type Column, type ColumnOptions, formatColumns } from './terminal.ts'

export interface FittedColumn extends Column {
  /** Where the width is too small, the column with the highest number is left out first. Absent: never. */
  readonly leaveOut?: number
  /** Its texts may be broken into lines. Only for the last column. */
  readonly wraps?: boolean
  /**
   * Its texts may be shortened in the middle, to this width before columns are left out, and to
   * less where none is left to leave out.
   */
  readonly shortens?: number
  /** Counts as at least this wide, so that which columns are left out does not change with the numbers in them. */
  readonly room?: number
}

/** The narrowest column of broken texts beside others. */
const MIN_WRAPPED = 24
const STEP = '  '

/** As `formatColumns`, but no line is longer than `width`; undefined: any length. */
export function fitColumns(
  columns: readonly FittedColumn[],
  rows: readonly (readonly Cell[])[],
  { width, ...options }: ColumnOptions & { readonly width: number | undefined },
): string[] {
  if (width === undefined) return formatColumns(columns, rows, options)
  const { gap = 2, indent = 0 } = options
  const widths = columns.map(({ title, room = 0 }, index) =>
    rows.reduce((widest, row) => Math.max(widest, textOf(row[index]).length), Math.max(title.length, room)),
  )
  const kept = new Set(columns.keys())
  /** @param elastic the width of a column whose texts can be broken or shortened */
  const total = (elastic: (column: FittedColumn, width: number) => number): number => {
    const all = [...kept].map((index) => {
      const [column = { title: '' }, width = 0] = [columns[index], widths[index]]
      return isElastic(column) ? elastic(column, width) : width
    })
    return indent + all.reduce((sum, one) => sum + one, 0) + gap * Math.max(0, all.length - 1)
  }
  while (total(leastOf) > width) {
    const [next] = [...kept]
      .filter((index) => columns[index]?.leaveOut !== undefined)
      .sort((a, b) => (columns[b]?.leaveOut ?? 0) - (columns[a]?.leaveOut ?? 0))
    if (next !== undefined) kept.delete(next)
    else if (total((column, all) => (column.shortens === undefined ? leastOf(column, all) : 1)) <= width) break
    else return rows.flatMap((row) => blockOf(row, kept, width))
  }
  const limits = shared(
    width - total(() => 0),
    [...kept].filter((index) => isElastic(columns[index])),
    widths,
  )
  return formatColumns(
    [...kept].flatMap((index) => {
      const [column, limit] = [columns[index], limits.get(index)]
      if (column === undefined) return []
      return column.shortens === undefined || limit === undefined
        ? [column]
        : [{ ...column, title: shortened(column.title, limit) }]
    }),
    rows.flatMap((row) => linesOf(row, kept, columns, limits)),
    options,
  )
}

const leastOf = ({ shortens }: FittedColumn, all: number): number => Math.min(all, shortens ?? MIN_WRAPPED)

const isElastic = (column: FittedColumn | undefined): boolean =>
  column?.wraps === true || column?.shortens !== undefined

/** The width of each elastic column: those that need less than an equal share leave the rest to the others. */
function shared(room: number, elastic: readonly number[], widths: readonly number[]): ReadonlyMap<number, number> {
  const limits = new Map<number, number>()
  let left = room
  for (const index of elastic.toSorted((a, b) => (widths[a] ?? 0) - (widths[b] ?? 0))) {
    const limit = Math.min(widths[index] ?? 0, Math.max(1, Math.floor(left / (elastic.length - limits.size))))
    limits.set(index, limit)
    left -= limit
  }
  return limits
}

/** One line, and more where a text is broken. */
function linesOf(
  row: readonly Cell[],
  kept: ReadonlySet<number>,
  columns: readonly FittedColumn[],
  limits: ReadonlyMap<number, number>,
): Cell[][] {
  let more: Cell[] = []
  const cells = [...kept].map((index) => {
    const [cell = '', limit = 0] = [row[index], limits.get(index)]
    if (columns[index]?.shortens !== undefined) return repainted(cell, shortened(textOf(cell), limit))
    if (columns[index]?.wraps !== true) return cell
    const [first = '', ...rest] = brokenCell(cell, limit)
    more = rest
    return first
  })
  return [cells, ...more.map((cell) => [...cells.slice(0, -1).map(() => ''), cell])]
}

/** One cell a line, those after the first indented, each broken where it is too long. */
function blockOf(row: readonly Cell[], kept: ReadonlySet<number>, width: number): string[] {
  return [...kept].flatMap((index) => {
    const cell = row[index] ?? ''
    if (textOf(cell) === '') return []
    const step = index === 0 ? '' : STEP
    return brokenCell(cell, Math.max(1, width - step.length)).map((part) => step + paintedOf(part))
  })
}

function brokenCell(cell: Cell, width: number): Cell[] {
  return breakText(textOf(cell), width).map((text) => repainted(cell, text))
}

const repainted = (cell: Cell, text: string): Cell => (typeof cell === 'string' ? text : { text, paint: cell.paint })

/** The start and the end of a longer text, with a mark between them. */
export function shortened(text: string, width: number): string {
  const plain = printable(text)
  if (plain.length <= width) return plain
  const tail = Math.floor((width - 1) / 2)
  return `${plain.slice(0, width - 1 - tail)}…${tail === 0 ? '' : plain.slice(-tail)}`
}

function textOf(cell: Cell | undefined): string {
  return typeof cell === 'object' ? cell.text : (cell ?? '')
}

function paintedOf(cell: Cell): string {
  return typeof cell === 'string' ? cell : cell.paint(cell.text)
}

/** Breaks a text at spaces, and within words that are longer than a line; at least one line. @param width 1 or more */
export function breakText(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = ''
    } else if (line !== '') {
      line += ` ${word}`
      continue
    }
    let rest = word
    while (rest.length > width) {
      lines.push(rest.slice(0, width))
      rest = rest.slice(width)
    }
    line = rest
  }
  return [...lines, line]
}
