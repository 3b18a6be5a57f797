/** The lines of `kube-ipvs top`: a headline, the totals, and a table that has as many columns as fit. */
import { type Row, type Rows, type SortKey, sortRows, titleOf } from '../traffic/rows.ts'
import {
  BYTES_IN,
  BYTES_OUT,
  CONNECTIONS,
  PACKETS_IN,
  PACKETS_OUT,
  type Rates,
  type Traffic,
} from '../traffic/sample.ts'
import { printable } from '../values/quote.ts'
import { type Extent, TOP_KEYS, type TopChoices } from './top-model.ts'
import { type Cell, formatColumns, type Style } from './terminal.ts'

export interface TopTable {
  readonly rates: Pick<Rates, 'mode' | 'seconds' | 'unread' | 'withoutConnections'>
  readonly rows: Rows
  readonly by: TopChoices['by']
  readonly sort: SortKey
}

/** Longest line without a terminal's width. */
const UNBOUNDED = 1000
const NARROWEST_NAME = 12
/** The table does not fit into fewer columns and is cut. */
const NARROWEST = 16
const UNITS = ['', 'k', 'M', 'G', 'T', 'P']

/** `0`, `0.5`, `12`, `1.5k`: at most five characters below a quintillion; `-` when it is unknown. */
export function formatRate(value: number): string {
  if (Number.isNaN(value)) return '-'
  if (value === 0) return '0'
  let scaled = value
  let unit = 0
  // 999.5 would be printed as 1000.
  for (; scaled >= 999.5 && unit < UNITS.length - 1; unit++) scaled /= 1000
  const digits = scaled < 9.95 ? 1 : 0
  if (unit === 0 && scaled < 0.05) return '<0.1'
  return `${scaled.toFixed(digits).replace(/\.0$/, '')}${UNITS[unit] ?? ''}`
}

const formatCount = (value: number): string => (Number.isNaN(value) ? '-' : formatRate(Math.round(value)))

interface NumberColumn {
  readonly title: string
  readonly of: (row: Pick<Row, 'traffic' | 'active' | 'inactive'>) => string
  /** The columns with which the table is sorted by it. */
  readonly sort?: SortKey
}

const part =
  (...indices: number[]) =>
  ({ traffic }: { readonly traffic: Traffic }): string =>
    formatRate(indices.reduce((sum, index) => sum + (traffic[index] ?? Number.NaN), 0))

const CONNECTIONS_COLUMN: NumberColumn = { title: 'CONN/S', of: part(CONNECTIONS), sort: 'connections' }
const PACKETS_COLUMN: NumberColumn = { title: 'PKT/S', of: part(PACKETS_IN, PACKETS_OUT), sort: 'packets' }
const BYTES_COLUMN: NumberColumn = { title: 'B/S', of: part(BYTES_IN, BYTES_OUT), sort: 'bytes' }
const ACTIVE_COLUMN: NumberColumn = { title: 'ACTIVE', of: ({ active }) => formatCount(active), sort: 'active' }
const INACTIVE_COLUMN: NumberColumn = { title: 'INACTIVE', of: ({ inactive }) => formatCount(inactive) }
/** The widest table. */
const BOTH_WAYS: readonly NumberColumn[] = [
  CONNECTIONS_COLUMN,
  { title: 'PKT IN/S', of: part(PACKETS_IN) },
  { title: 'PKT OUT/S', of: part(PACKETS_OUT) },
  { title: 'B IN/S', of: part(BYTES_IN) },
  { title: 'B OUT/S', of: part(BYTES_OUT) },
  ACTIVE_COLUMN,
  INACTIVE_COLUMN,
]
const ONE_WAY = [CONNECTIONS_COLUMN, PACKETS_COLUMN, BYTES_COLUMN, ACTIVE_COLUMN, INACTIVE_COLUMN]

/** Columns of a terminal: numbers have at most five characters, the title of the column that sorts has a mark, and two spaces. */
const widthOf = ({ title }: NumberColumn): number => Math.max(5, title.length + 1) + 2

/** The number columns for a width; the one that sorts is the last to be left out. */
function columnsFor(width: number, sort: SortKey): readonly NumberColumn[] {
  if (width >= 110) return BOTH_WAYS
  const isSorting = ({ sort: one }: NumberColumn): boolean => one === sort || (sort === 'name' && one === 'connections')
  const chosen = new Set<NumberColumn>()
  let left = width - NARROWEST_NAME
  for (const column of ONE_WAY.toSorted((a, b) => Number(isSorting(b)) - Number(isSorting(a)))) {
    left -= widthOf(column)
    if (left < 0 && chosen.size > 0) break
    chosen.add(column)
  }
  return ONE_WAY.filter((column) => chosen.has(column))
}

/** The table with its totals, as text for a file or a pipe: every row. */
export function tableText(table: TopTable, style: Style, width = UNBOUNDED): string[] {
  return [...summary(table, style), '', ...tableLines(table, sortRows(table.rows.rows, table.sort), width, style)]
}

/** What is above the table. */
function summary({ rates, rows, by }: TopTable, style: Style): string[] {
  const what = by === 'service' ? 'Service' : 'real server'
  const count = rows.rows.length
  const { traffic, active, inactive } = rows.total
  const rate = (index: number): string => formatRate(traffic[index] ?? Number.NaN)
  const totals =
    rates.mode === 'ipvs'
      ? `${rate(CONNECTIONS)} connections, ${rate(PACKETS_IN)} packets in and ${rate(PACKETS_OUT)} out, ` +
        `${rate(BYTES_IN)} bytes in and ${rate(BYTES_OUT)} out a second`
      : `${rate(CONNECTIONS)} connections a second`
  const connections = `${formatCount(active)} active and ${formatCount(inactive)} inactive connections`
  const notes = [
    ...(rates.mode === 'iptables' ? ['iptables mode counts no packets and bytes'] : []),
    ...(rates.withoutConnections === undefined ? [] : [`connections are unknown: ${rates.withoutConnections}`]),
    ...(rates.unread === 0 ? [] : [`real servers of ${rates.unread} virtual servers were not read, to save time`]),
  ]
  return [
    `${style('bold', `${count} ${what}${count === 1 ? '' : 's'}`)} in ${rates.mode} mode, over ${rates.seconds.toFixed(1)} s`,
    `${style('bold', 'total')} ${totals}; ${connections}`,
    ...notes.map((note) => style('dim', `note: ${note}`)),
  ]
}

function tableLines(table: TopTable, rows: readonly Row[], width: number, style: Style): string[] {
  const columns = columnsFor(width, table.sort)
  const numbers = columns.reduce((sum, column) => sum + widthOf(column), 0)
  const space = Math.max(4, width - numbers)
  const names = table.by === 'service' ? rows.map((row) => [titleOf(row)]) : namesOfServers(rows, space)
  const isTwo = names.some((name) => name.length > 1)
  const nameWidth = isTwo ? Math.floor((space - 2) / 2) : space
  const titles = isTwo ? ['SERVICE', 'REAL SERVER'] : [table.by === 'service' ? 'SERVICE' : 'REAL SERVER']
  const paint =
    ({ draining }: Row) =>
    (text: string) =>
      draining ? style('yellow', text) : text
  const cells = rows.map((row, index): readonly Cell[] => [
    ...titles.map((_, at) => ({ text: shortened(names[index]?.[at] ?? '', nameWidth), paint: paint(row) })),
    ...columns.map(({ of }) => of(row)),
  ])
  const title = ({ title: text, sort }: NumberColumn) => (sort === table.sort ? `${text}*` : text)
  return formatColumns(
    [
      ...titles.map((text) => ({ title: shortened(text, nameWidth) })),
      ...columns.map((column) => ({ title: title(column), align: 'right' as const })),
    ],
    cells,
    { paintTitle: (text) => style('dim', text) },
  )
}

/** Service and real server beside each other where both fit, else the real server alone. */
function namesOfServers(rows: readonly Row[], space: number): string[][] {
  if (space < 2 * NARROWEST_NAME + 10) return rows.map(({ realServer }) => [realServer ?? ''])
  return rows.map((row) => [titleOf(row), row.realServer ?? ''])
}

/** The start and the end of a longer text, with a mark between them. */
export function shortened(text: string, width: number): string {
  const plain = printable(text)
  if (plain.length <= width) return plain
  const tail = Math.floor((width - 1) / 2)
  return `${plain.slice(0, width - 1 - tail)}…${tail === 0 ? '' : plain.slice(-tail)}`
}

export interface TopScreen {
  readonly columns: number
  readonly lines: number
  /** What is unknown, a line each. */
  readonly notes?: readonly string[]
}

/** The lines of a terminal, none wider than it, and how far the rows can be scrolled. */
export function screenText(
  table: TopTable | undefined,
  choices: TopChoices,
  { columns, lines, notes = [] }: TopScreen,
  style: Style,
): { readonly lines: readonly string[]; readonly extent: Extent } {
  const height = Math.max(1, lines)
  if (choices.help) return { lines: helpLines(columns, style).slice(0, height), extent: { rows: 0, height } }
  const footer = choices.typed === undefined ? 'q quit  h help  / filter  g group' : `filter: ${choices.typed}_`
  const chosen = choices.text === '' ? [] : [`filter: ${choices.text}`]
  if (table === undefined)
    return {
      lines: ['reading the counters ...', footer].map((line) => cut(line, columns)),
      extent: { rows: 0, height },
    }
  const plain: Style = (_, text) => text
  const above = [...summary(table, plain), ...notes.map((note) => `note: ${note}`), ...chosen].map((line) =>
    cut(line, columns),
  )
  const room = Math.max(1, height - above.length - 3)
  const sorted = sortRows(table.rows.rows, table.sort)
  const first = Math.min(choices.scroll, Math.max(0, sorted.length - room))
  const rows = sorted.slice(first, first + room)
  const shown =
    columns < NARROWEST
      ? tableLines(table, rows, columns, plain).map((line) => cut(line, columns))
      : tableLines(table, rows, columns, style)
  const [headline = '', ...rest] = above
  const all = [style('bold', headline), ...rest, '', ...shown]
  const [kept, more] = [all.slice(0, height - 1), sorted.length - first - room]
  const bottom = more > 0 && choices.typed === undefined ? `${footer}  ${more} more below` : footer
  return { lines: [...kept, style('dim', cut(bottom, columns))], extent: { rows: sorted.length, height: room } }
}

function helpLines(columns: number, style: Style): string[] {
  const width = Math.max(...TOP_KEYS.map(([keys]) => keys.length))
  const rows = TOP_KEYS.map(([keys, what]) => cut(`${keys.padEnd(width)}  ${what}`, columns))
  return [style('bold', cut('keys of kube-ipvs top', columns)), ...rows]
}

/** A text without colours, at most this long. */
function cut(text: string, width: number): string {
  const plain = printable(text)
  return plain.length <= width ? plain : `${plain.slice(0, Math.max(0, width - 1))}…`
}
