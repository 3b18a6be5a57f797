/** What the experiment shows: two pages with a table each, of what a client notices and of what the programs cost, and charts. Pure. */
import type { Calibration } from './calibration.ts'
import { type Cell, cellOf } from './cell.ts'
import { formatNumber, markdownTable } from './page.ts'
import { type Bound, type Chart, type Line, svgOf } from './plot.ts'
import type { Figure, Measure } from './result.ts'
import { SERIES, SERIES_NAMES, type SeriesName, SIZES } from './series.ts'
import { COUNTS } from './traffic.ts'
import { reasonsAgainst } from './trust.ts'

type What = keyof typeof SIZES

/** Where the figures are shown. */
export const PAGES: Readonly<Record<What, string>> = { traffic: 'README.md', cost: 'over-size.md' }

interface Column {
  readonly heading: string
  readonly measure: Measure
  readonly digits: number
  /** For the unit of the heading. */
  readonly divisor?: number
}

const CHANGE: readonly Column[] = [
  { heading: 'change p50 (ms)', measure: 'changeP50Ms', digits: 1 },
  { heading: 'change p99 (ms)', measure: 'changeP99Ms', digits: 1 },
]
const COLUMNS: Readonly<Record<What, readonly Column[]>> = {
  traffic: [
    { heading: 'rules before', measure: 'rulesBefore', digits: 0 },
    { heading: 'latency p50 (µs)', measure: 'latencyP50Us', digits: 0 },
    { heading: 'latency p99 (µs)', measure: 'latencyP99Us', digits: 0 },
    { heading: 'connections/s', measure: 'connectionsPerSecond', digits: 0 },
    ...CHANGE,
  ],
  cost: [
    { heading: 'cold start (s)', measure: 'coldStartMs', digits: 2, divisor: 1000 },
    { heading: 'its CPU (s)', measure: 'coldStartCpuMs', digits: 2, divisor: 1000 },
    ...CHANGE,
    { heading: 'changes', measure: 'changes', digits: 0 },
    { heading: 'CPU at rest (%)', measure: 'idleCpuPercent', digits: 2 },
    { heading: 'RSS (MiB)', measure: 'rssMiB', digits: 0 },
    { heading: 'peak RSS (MiB)', measure: 'peakRssMiB', digits: 0 },
  ],
}

/** Processor time is counted in steps of so many milliseconds. */
const TICK_MS = 10

type Shown = Figure | { readonly lessThan: number }

function shown({ measured, limits }: Cell, measure: Measure, divisor = 1): Shown {
  const figure = measured?.[measure] ?? null
  if (measure === 'idleCpuPercent' && figure === 0) return { lessThan: TICK_MS / 10 / limits.idleSeconds }
  if (figure === null) return null
  return typeof figure === 'number' ? figure / divisor : { moreThan: figure.moreThan / divisor }
}

function textOf(figure: Shown, digits: number): string {
  if (figure === null || typeof figure === 'number') return formatNumber(figure, digits)
  if ('lessThan' in figure) return `< ${formatNumber(figure.lessThan, digits)}`
  return `> ${formatNumber(figure.moreThan, figure.moreThan >= 10 ? 0 : digits)}`
}

/** Circumstances, the table and what is missing, in Markdown. @param cells with the same number of endpoints */
export function figuresOf(what: What, cells: readonly Cell[]): string {
  const names = SERIES_NAMES.filter((series) => SERIES[series].what === what)
  const ours = cells.filter(({ series }) => names.includes(series))
  const [first] = ours
  if (first === undefined) return 'Nothing is measured yet.'
  const sizes = [...new Set([...SIZES[what], ...ours.map(({ services }) => services)])].toSorted((a, b) => a - b)
  const rows: string[][] = []
  const missing: string[] = []
  for (const services of sizes) {
    const absent: string[] = []
    for (const series of names) {
      const cell = cellOf(ours, { series, services, endpoints: first.endpoints })
      if (cell === undefined) absent.push(series)
      else rows.push(rowOf(cell, COLUMNS[what]))
    }
    const which = absent.length === names.length ? 'all' : absent.join(', ')
    if (absent.length > 0) missing.push(`at ${formatNumber(services, 0)} ${which}`)
  }
  const failed = ours.flatMap(({ failure, series, services }) =>
    failure === null ? [] : [`- ${series} at ${formatNumber(services, 0)} failed: ${oneLine(failure)}`],
  )
  return [
    ...circumstances(what, ours),
    '',
    ...markdownTable(['Services', 'series', ...COLUMNS[what].map(({ heading }) => heading)], rows),
    ...(failed.length > 0 ? ['', ...failed] : []),
    ...(missing.length > 0 ? ['', `Not measured: ${missing.join('; ')}.`] : []),
  ].join('\n')
}

function rowOf(cell: Cell, columns: readonly Column[]): string[] {
  const texts = columns.map(({ measure, digits, divisor }) =>
    cell.measured === null ? 'failed' : textOf(shown(cell, measure, divisor), digits),
  )
  return [formatNumber(cell.services, 0), cell.series, ...texts]
}

const oneLine = (text: string): string =>
  text.trim().split('\n').slice(0, 2).join(' ').replaceAll('|', '\\|').slice(0, 300)

/** When, where and with which programs and limits the cells were measured, and whether the machine was quiet. */
function circumstances(what: What, cells: readonly Cell[]): string[] {
  const distinct = (pick: (cell: Cell) => string | number): string => [...new Set(cells.map(pick))].join(', ')
  const times = cells.map(({ at }) => at.slice(0, 16).replace('T', ' ')).toSorted()
  const calibrations = cells.flatMap(({ calibration }) => calibration ?? [])
  const range = (name: string, figure: keyof Calibration, digits: number): string => {
    const values = calibrations.map((one) => one[figure])
    return `${name} ${formatNumber(Math.min(...values), digits)} to ${formatNumber(Math.max(...values), digits)} µs`
  }
  const ranges = [
    range('a system call took', 'systemCallUs', 2),
    range('a page fault', 'pageFaultUs', 2),
    range('the start of a process', 'processStartUs', 0),
    range('the arithmetic loop', 'arithmeticUs', 0),
  ]
  const reasons = reasonsAgainst({ disturbances: cells.map(({ load }) => load), calibrations, results: [] })
  const how =
    what === 'traffic'
      ? `${COUNTS.requests} requests, ${COUNTS.connections} connections by ${COUNTS.clients} clients, ${distinct(({ changes }) => changes)} changes`
      : `at rest for ${distinct(({ limits }) => limits.idleSeconds)} s`
  return [
    `Measured from ${times[0]} to ${times.at(-1)} UTC: ${distinct(({ version }) => version)} with Node ${distinct(({ node }) => node)}, ` +
      `commits ${distinct(({ commit }) => (commit === null ? 'unknown' : `${commit.hash.slice(0, 12)}${commit.changed ? ' with changes' : ''}`))}, ` +
      `kernel ${distinct(({ kernel }) => `${kernel.kind} ${kernel.release ?? ''}`.trim())} on one processor of ` +
      `${distinct(({ machine }) => `${machine.processors} (${machine.model})`)}. ${distinct(({ endpoints }) => endpoints)} endpoints a Service, ${how}; ` +
      `limits: ${distinct(({ limits }) => limits.coldStartSeconds)} s for a cold start, ${distinct(({ limits }) => limits.changeSeconds)} s for a change.`,
    '',
    ...(calibrations.length === 0 ? [] : [`Calibration in the boots of the cells: ${ranges.join(', ')}.`, '']),
    reasons.length === 0
      ? 'The machine was quiet enough for the figures to be compared.'
      : `**The machine was too busy for exact figures**: ${reasons.join('; ')}. The shape of the curves is what to read here.`,
  ]
}

interface Plot extends Pick<Chart, 'title' | 'yLabel' | 'yScale'> {
  readonly file: string
  /** What is drawn, the second one dashed. */
  readonly measures: readonly Measure[]
  readonly divisor: number
}

const plot = (file: string, title: string, yLabel: string, measures: readonly Measure[], divisor = 1): Plot => ({
  file: `${file}.svg`,
  title,
  yLabel,
  yScale: yLabel.includes('logarithmic') ? 'log' : 'linear',
  measures,
  divisor,
})
const CHANGE_TITLE = 'From a change in the API to the kernel'
const MS = 'milliseconds (logarithmic)'
const PLOTS: Readonly<Record<What, readonly Plot[]>> = {
  traffic: [
    plot('latency', 'Latency of a request on a new connection', 'connect, request, response (µs)', [
      'latencyP50Us',
      'latencyP99Us',
    ]),
    plot('connections', 'New connections a second through one ClusterIP', 'connections a second', [
      'connectionsPerSecond',
    ]),
    plot('change', CHANGE_TITLE, MS, ['changeP50Ms', 'changeP99Ms']),
  ],
  cost: [
    plot(
      'over-size-cold-start',
      'Cold start, until the table in the kernel is complete',
      'seconds (logarithmic)',
      ['coldStartMs'],
      1000,
    ),
    plot('over-size-change-p50', `${CHANGE_TITLE}: median`, MS, ['changeP50Ms']),
    plot('over-size-change-p99', `${CHANGE_TITLE}: 99th percentile`, MS, ['changeP99Ms']),
    plot(
      'over-size-idle',
      'Processor time at rest, of the program and its children',
      'percent of a processor (logarithmic)',
      ['idleCpuPercent'],
    ),
    plot('over-size-memory', 'Memory at rest (RSS)', 'MiB (logarithmic)', ['rssMiB']),
  ],
}

/** The lines of a chart in the order of its legend, which has two columns: ours, theirs. The index is that of colour and marker. */
const LINES: Readonly<Record<What, readonly (readonly [series: SeriesName, name: string])[]>> = {
  traffic: [
    ['traffic/ipvs', 'ipvs mode'],
    ['traffic/iptables', 'iptables mode'],
  ],
  cost: [
    ['kube-ipvs/addresses', 'kube-ipvs, addresses'],
    ['kube-proxy/ipvs', 'kube-proxy, ipvs mode'],
    ['kube-ipvs/routes', 'kube-ipvs, routes'],
    ['kube-proxy/iptables', 'kube-proxy, iptables mode'],
    ['kube-ipvs/iptables', 'kube-ipvs, iptables mode'],
    ['kube-proxy/nftables', 'kube-proxy, nftables mode'],
  ],
}

/** The files of the charts, by name. @param cells with the same number of endpoints */
export function plotsOf(cells: readonly Cell[]): Readonly<Record<string, string>> {
  const entries = (['traffic', 'cost'] as const).flatMap((what) =>
    cells.some(({ series }) => SERIES[series].what === what)
      ? PLOTS[what].map((plot) => [plot.file, svgOf(chartOf(what, plot, cells))])
      : [],
  )
  return Object.fromEntries(entries)
}

function chartOf(what: What, { title, yLabel, yScale, measures, divisor }: Plot, cells: readonly Cell[]): Chart {
  const without: string[] = []
  const lines = measures.flatMap((measure, dash) =>
    LINES[what].flatMap(([series, program], look): readonly Line[] => {
      const points: (readonly [number, number])[] = []
      const bounds: Bound[] = []
      for (const cell of cells.filter((one) => one.series === series)) {
        const figure = shown(cell, measure, divisor)
        const x = cell.services
        if (figure === null) without.push(`${series} at ${formatNumber(x, 0)}`)
        else if (typeof figure === 'number') points.push([x, figure])
        else if ('moreThan' in figure) bounds.push({ x, y: figure.moreThan, side: 'above' })
        else bounds.push({ x, y: figure.lessThan, side: 'below' })
      }
      const suffix = measures.length === 1 ? '' : dash === 0 ? ', median' : ', 99th percentile'
      const line = { name: `${program}${suffix}`, look, dashed: dash > 0, points, bounds }
      return points.length + bounds.length === 0 ? [] : [line]
    }),
  )
  const open = lines.some(({ bounds }) => bounds.length > 0)
  const notes = [
    ...(open ? ['Open marker: more (or less) than this limit.'] : []),
    ...(without.length > 0 ? [`No value: ${[...new Set(without)].join(', ')}.`] : []),
  ]
  const xScale = what === 'traffic' ? 'linear' : 'log'
  const xLabel = what === 'traffic' ? 'Services present' : 'Services (logarithmic)'
  return { title, xLabel, yLabel, xScale, yScale, lines, note: notes.join(' ') }
}
