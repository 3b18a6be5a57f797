/**
 * Tables that fit a terminal of any width: columns that matter least are left out, long texts are broken into lines, and where even
 * that does not help each row becomes a small block. Output that is no terminal has no width, and gets everything.
 */
import { type Cell, type Column, type ColumnOptions, formatColumns } from './terminal.ts'

export interface FittedColumn extends Column {
  /** Where the width is too small, the column with the highest number is left out first. Absent: never. */
  readonly leaveOut?: number
  /** Its texts may be broken into lines. Only for the last column. */
  readonly wraps?: boolean
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
  const widths = columns.map(({ title }, index) =>
    rows.reduce((widest, row) => Math.max(widest, textOf(row[index]).length), title.length),
  )
  const kept = new Set(columns.keys())
  const total = (last?: number): number => {
    const all = [...kept].map((index) =>
      last !== undefined && columns[index]?.wraps === true ? last : (widths[index] ?? 0),
    )
    return indent + all.reduce((sum, one) => sum + one, 0) + gap * Math.max(0, all.length - 1)
  }
  const wrapped = columns.findIndex(({ wraps }) => wraps === true)
  const least = wrapped < 0 ? undefined : Math.min(widths[wrapped] ?? 0, MIN_WRAPPED)
  while (total(least) > width) {
    const [next] = [...kept]
      .filter((index) => columns[index]?.leaveOut !== undefined)
      .sort((a, b) => (columns[b]?.leaveOut ?? 0) - (columns[a]?.leaveOut ?? 0))
    if (next === undefined) return rows.flatMap((row) => blockOf(row, kept, width))
    kept.delete(next)
  }
  const left = width - total(0)
  const shown = rows.flatMap((row) => {
    const cells = [...kept].map((index) => row[index] ?? '')
    if (wrapped < 0) return [cells]
    const [first = '', ...more] = brokenCell(row[wrapped] ?? '', left)
    const before = cells.slice(0, -1)
    return [[...before, first], ...more.map((cell) => [...before.map(() => ''), cell])]
  })
  return formatColumns(
    columns.filter((_, index) => kept.has(index)),
    shown,
    options,
  )
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
  const parts = breakText(textOf(cell), width)
  return typeof cell === 'string' ? parts : parts.map((text) => ({ text, paint: cell.paint }))
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
