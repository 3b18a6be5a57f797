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
import { type Extent, firstShown } from './scroll.ts'
import { TOP_KEYS, type TopChoices } from './top-model.ts'
import { fitColumns, type FittedColumn } from './fitted-table.ts'
import type { Style } from '../start/style.ts'
import type { Cell } from './terminal.ts'

export interface TopTable {
  readonly rates: Pick<Rates, 'mode' | 'seconds' | 'unread' | 'withoutConnections'>
  readonly rows: Rows
  readonly by: TopChoices['by']
  readonly sort: SortKey
  /** Real servers that do not answer, by virtual server and real server; absent: nobody knows. */
  readonly outliers?: Outliers
}

/** States by `VIRTUAL_SERVER REAL_SERVER`. */
export type Outliers = ReadonlyMap<string, { readonly state: string }>

/** The state of a real server that does not answer: its weight may be 0, and it does not drain. */
export function outlierOf({ realServer, places }: Row, outliers: Outliers | undefined): string | undefined {
  if (realServer === null) return undefined
  for (const place of places) {
    const outlier = outliers?.get(`${place} ${realServer}`)
    if (outlier !== undefined) return outlier.state
  }
  return undefined
}

/** The narrowest names beside numbers, and names of Services beside those of real servers. */
const [NARROWEST_NAME, NARROWEST_SERVICE] = [12, 17]
/** The table does not fit into fewer columns and is cut. */
const NARROWEST = 16
/** From here on there is a column for each direction. */
const BOTH_WAYS_WIDTH = 110
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

/** The number columns for a width; the one that sorts is never left out, the others from the last to the first. */
function numberColumns(width: number | undefined, sorting: SortKey): (FittedColumn & NumberColumn)[] {
  const columns = width === undefined || width >= BOTH_WAYS_WIDTH ? BOTH_WAYS : ONE_WAY
  return columns.map((column, index) => {
    const { title, sort } = column
    const isSorting = sort === (sorting === 'name' ? 'connections' : sorting)
    return {
      ...column,
      title: sort === sorting ? `${title}*` : title,
      align: 'right',
      // A number has at most five characters, and the title may get a mark.
      room: Math.max(5, title.length + 1),
      ...(isSorting ? {} : { leaveOut: index + 1 }),
    }
  })
}

/** The table with its totals, as text for a file or a pipe: every row. */
export function tableText(table: TopTable, style: Style, width?: number): string[] {
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

/** Service and real server beside each other where both fit, else the real server alone. */
function tableLines(
  { by, sort, outliers }: TopTable,
  rows: readonly Row[],
  width: number | undefined,
  style: Style,
): string[] {
  const service: FittedColumn = { title: 'SERVICE', shortens: NARROWEST_NAME }
  const names: readonly FittedColumn[] =
    by === 'service'
      ? [service]
      : [
          { ...service, shortens: NARROWEST_SERVICE, leaveOut: 100 },
          { title: 'REAL SERVER', shortens: NARROWEST_NAME },
        ]
  const numbers = numberColumns(width, sort)
  const cells = rows.map((row): readonly Cell[] => {
    const outlier = outlierOf(row, outliers)
    const colour = outlier !== undefined ? 'red' : row.isDraining ? 'yellow' : undefined
    const paint = (text: string): string => (colour === undefined ? text : style(colour, text))
    const server = `${row.realServer ?? ''}${outlier === undefined ? '' : ` ${outlier}`}`
    const texts = by === 'service' ? [titleOf(row)] : [titleOf(row), server]
    return [...texts.map((text) => ({ text, paint })), ...numbers.map(({ of }) => of(row))]
  })
  return fitColumns([...names, ...numbers], cells, { width, paintTitle: (text) => style('dim', text) })
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
  const first = firstShown(choices.scroll, { rows: sorted.length, height: room })
  const rows = sorted.slice(first, first + room)
  const shown =
    columns < NARROWEST
      ? tableLines(table, rows, NARROWEST, plain).map((line) => cut(line, columns))
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
