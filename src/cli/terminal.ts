/** What commands print for users in aligned columns. */
import { printable } from '../values/quote.ts'

export interface Column {
  readonly title: string
  /** Numbers read best at the right. Default left. */
  readonly align?: 'left' | 'right'
}

/** A text, or a text and the function that colours it. Colouring follows measuring, so colours never move a column. */
export type Cell = string | { readonly text: string; readonly paint: (text: string) => string }

export interface ColumnOptions {
  /** Spaces between columns; default 2. */
  readonly gap?: number
  /** Spaces before each line; default none. */
  readonly indent?: number
  readonly paintTitle?: (text: string) => string
}

/**
 * One line for the titles and one for each row, without trailing spaces. Missing cells are empty;
 * surplus ones are left out. Titles that are all '' make no line.
 */
export function formatColumns(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  options: ColumnOptions = {},
): string[] {
  const widths = columns.map(({ title }, index) =>
    rows.reduce((width, row) => Math.max(width, cellText(row[index]).length), title.length),
  )
  const gap = ' '.repeat(options.gap ?? 2)
  const indent = ' '.repeat(options.indent ?? 0)
  const line = (cells: readonly Cell[]): string => {
    let text = indent
    // Spaces that are added when a cell with text follows: trimEnd would not find them behind the codes of a colour.
    let pending = ''
    for (const [index, column] of columns.entries()) {
      const cell = cells[index] ?? ''
      const plain = cellText(cell)
      const space = ' '.repeat((widths[index] ?? 0) - plain.length)
      const painted = typeof cell === 'string' || plain === '' ? plain : cell.paint(plain)
      if (plain === '') pending += space
      else if (column.align === 'right') {
        text += pending + space + painted
        pending = ''
      } else {
        text += pending + painted
        pending = space
      }
      pending += gap
    }
    return text.trimEnd() === '' ? '' : text
  }
  const { paintTitle } = options
  const titles = columns.map(({ title }) => (paintTitle === undefined ? title : { text: title, paint: paintTitle }))
  return [...(columns.some(({ title }) => title !== '') ? [line(titles)] : []), ...rows.map(line)]
}

/** Escaped before it is measured. */
function cellText(cell: Cell | undefined): string {
  return printable(typeof cell === 'object' ? cell.text : (cell ?? ''))
}
