/** What commands print for users: colours and aligned columns. Output that is piped has no colours. */
import { randomBytes } from 'node:crypto'
import { styleText } from 'node:util'
import { printable } from '../values/quote.ts'

export type StyleFormat = Parameters<typeof styleText>[0]

/** Colours a text, or returns it as it is. */
export type Style = (format: StyleFormat, text: string) => string

/** Colours only for a terminal, and not when NO_COLOR is set to anything (https://no-color.org) or the terminal is dumb. */
export function styleFor(
  stream: { readonly isTTY?: boolean | undefined },
  environment: Readonly<Record<string, string | undefined>>,
): Style {
  const plain = stream.isTTY !== true || (environment['NO_COLOR'] ?? '') !== '' || environment['TERM'] === 'dumb'
  if (plain) return (_, text) => text
  const mark = ownMark()
  return (format, text) => {
    // Without validateStream node would check process.stdout, whichever stream this is.
    const codes = styleText(format, PLACE, { validateStream: false }).replaceAll(CODE, `${mark}$1m`)
    const [before = '', after = ''] = codes.split(PLACE)
    return `${before}${text}${after}`
  }
}

/** Stands for a text between codes. */
const PLACE = '|'

/** A code of `styleText`: ESC, `[`, a number, `m`. */
// oxlint-disable-next-line no-control-regex
const CODE = /\x1b\[(\d+)m/g

let markOfProcess: string | undefined

/** What stands for ESC and `[` in codes of this program until a line is written: no text of others can contain it. */
function ownMark(): string {
  markOfProcess ??= `\x1b${randomBytes(8).toString('hex')}[`
  return markOfProcess
}

/** A text with the codes of `styleFor` as a terminal reads them; `escape` gets what is between them. */
export function finishStyles(text: string, escape: (text: string) => string): string {
  if (markOfProcess === undefined || !text.includes(markOfProcess)) return escape(text)
  return text
    .split(markOfProcess)
    .map((part, index) => {
      const code = index === 0 ? undefined : /^\d+m/.exec(part)?.[0]
      return code === undefined ? escape(part) : `\x1b[${code}${escape(part.slice(code.length))}`
    })
    .join('')
}

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
 * One line for the titles and one for each row, without trailing spaces. Missing cells are empty; surplus ones are left out.
 * Titles that are all '' make no line.
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
