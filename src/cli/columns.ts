/**
 * Aligned columns for tables in a terminal.
 * What could break: a cell is measured before it is painted, so colours never move a column.
 */

export interface Column {
  readonly title: string
  /** Numbers read best at the right. Left when absent. */
  readonly align?: 'left' | 'right'
}

/** A text, or a text with what colours it once it has its width. */
export type Cell = string | { readonly text: string; readonly paint: (text: string) => string }

export interface ColumnOptions {
  /** Spaces between columns; 2 when absent. */
  readonly gap?: number
  /** Spaces before each line; none when absent. */
  readonly indent?: number
  readonly paintTitle?: (text: string) => string
}

/**
 * One line for the titles and one for each row, without trailing spaces. Missing cells are empty, surplus ones an error
 * of the caller and left out. Titles that are all '' make no line.
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
    // Spaces are held back until a cell with text follows: a painted line would hide trailing ones from trimEnd.
    let held = ''
    for (const [index, column] of columns.entries()) {
      const cell = cells[index] ?? ''
      const plain = cellText(cell)
      const space = ' '.repeat((widths[index] ?? 0) - plain.length)
      const painted = typeof cell === 'string' || plain === '' ? plain : cell.paint(plain)
      if (plain === '') held += space
      else if (column.align === 'right') {
        text += held + space + painted
        held = ''
      } else {
        text += held + painted
        held = space
      }
      held += gap
    }
    return text.trimEnd() === '' ? '' : text
  }
  const { paintTitle } = options
  const titles = columns.map(({ title }) => (paintTitle === undefined ? title : { text: title, paint: paintTitle }))
  return [...(columns.some(({ title }) => title !== '') ? [line(titles)] : []), ...rows.map(line)]
}

function cellText(cell: Cell | undefined): string {
  return typeof cell === 'object' ? cell.text : (cell ?? '')
}
