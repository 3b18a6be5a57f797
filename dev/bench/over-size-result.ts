/** What the measurement over size shows: a table and charts of all cells. Pure. */
import { type Cell, cellOf, type CellMeasured, type CellName, type Figure } from './cell.ts'
import { OVER_SIZE_SIZES } from './options.ts'
import { formatNumber, markdownTable } from './page.ts'
import { type Bound, type Chart, type Colour, type Series, svgOf } from './plot.ts'
import { SERIES_NAMES, type SeriesName } from './series.ts'
import { reasonsAgainst } from './trust.ts'

/** Left and right column of the legend in turns: ours, theirs. */
const DRAWN: readonly (readonly [series: SeriesName, name: string, colour: Colour])[] = [
  ['kube-ipvs/addresses', 'kube-ipvs, addresses', 'first'],
  ['kube-proxy/ipvs', 'kube-proxy, ipvs mode', 'fourth'],
  ['kube-ipvs/routes', 'kube-ipvs, routes', 'third'],
  ['kube-proxy/iptables', 'kube-proxy, iptables mode', 'second'],
  ['kube-ipvs/iptables', 'kube-ipvs, iptables mode', 'sixth'],
  ['kube-proxy/nftables', 'kube-proxy, nftables mode', 'fifth'],
]

interface Plot {
  readonly file: string
  readonly title: string
  readonly yLabel: string
  /** The figure in the unit of the label. */
  readonly pick: (measured: CellMeasured, cell: Cell) => Figure | { readonly lessThan: number }
}

const scaled = (figure: Figure, divisor: number): Figure =>
  figure === null ? null : typeof figure === 'number' ? figure / divisor : { moreThan: figure.moreThan / divisor }

/** Processor time is counted in steps of so many milliseconds. */
const TICK_MS = 10

const PLOTS: readonly Plot[] = [
  {
    file: 'over-size-cold-start.svg',
    title: 'Cold start, until the table in the kernel is complete',
    yLabel: 'seconds (logarithmic)',
    pick: ({ coldStartMs }) => scaled(coldStartMs, 1000),
  },
  {
    file: 'over-size-change-p50.svg',
    title: 'One change, from the API to the kernel: median',
    yLabel: 'milliseconds (logarithmic)',
    pick: ({ changeP50Ms }) => changeP50Ms,
  },
  {
    file: 'over-size-change-p99.svg',
    title: 'One change, from the API to the kernel: 99th percentile',
    yLabel: 'milliseconds (logarithmic)',
    pick: ({ changeP99Ms }) => changeP99Ms,
  },
  {
    file: 'over-size-idle.svg',
    title: 'Processor time at rest, of the program and its children',
    yLabel: 'percent of a processor (logarithmic)',
    pick: ({ idleCpuPercent }, { limits }) =>
      idleCpuPercent === 0 ? { lessThan: TICK_MS / 10 / limits.idleSeconds } : idleCpuPercent,
  },
  {
    file: 'over-size-memory.svg',
    title: 'Memory at rest (RSS)',
    yLabel: 'MiB (logarithmic)',
    pick: ({ rssMiB }) => rssMiB,
  },
]

/** The files of the charts, by name. @param cells with the same number of endpoints */
export function plotsOfCells(cells: readonly Cell[]): Readonly<Record<string, string>> {
  return Object.fromEntries(PLOTS.map((plot) => [plot.file, svgOf(chartOf(plot, cells))]))
}

function chartOf({ title, yLabel, pick }: Plot, cells: readonly Cell[]): Chart {
  const without: string[] = []
  const series = DRAWN.flatMap(([name, text, colour]): readonly Series[] => {
    const points: (readonly [number, number])[] = []
    const bounds: Bound[] = []
    for (const cell of cells.filter((one) => one.series === name)) {
      const figure = cell.measured === null ? null : pick(cell.measured, cell)
      const x = cell.services
      if (figure === null) without.push(`${name} at ${formatNumber(x, 0)}`)
      else if (typeof figure === 'number') points.push([x, figure])
      else if ('moreThan' in figure) bounds.push({ x, y: figure.moreThan, side: 'above' })
      else bounds.push({ x, y: figure.lessThan, side: 'below' })
    }
    return points.length + bounds.length === 0 ? [] : [{ name: text, colour, points, bounds }]
  })
  const open = series.some(({ bounds = [] }) => bounds.length > 0)
  const notes = [
    ...(open ? ['Open marker: more (or less) than this limit.'] : []),
    ...(without.length > 0 ? [`No value: ${without.join(', ')}.`] : []),
  ]
  return {
    title,
    xLabel: 'Services (logarithmic)',
    yLabel,
    xScale: 'log',
    yScale: 'log',
    series,
    ...(notes.length > 0 ? { note: notes.join(' ') } : {}),
  }
}

/** Circumstances, the table and what is missing, in Markdown. @param cells with the same number of endpoints */
export function figuresOfCells(cells: readonly Cell[], endpoints: number): string {
  if (cells.length === 0) return 'Nothing is measured yet.'
  const all = [...new Set([...OVER_SIZE_SIZES, ...cells.map((cell) => cell.services)])].toSorted((a, b) => a - b)
  const names: CellName[] = all.flatMap((services) => SERIES_NAMES.map((series) => ({ series, services, endpoints })))
  const table = markdownTable(
    HEADING,
    names.flatMap((name) => {
      const cell = cellOf(cells, name)
      return cell === undefined ? [] : [rowOf(cell)]
    }),
    [1],
  )
  const missing = all.flatMap((services) => missingAt(services, cells, endpoints) ?? [])
  const failed = cells.flatMap((cell) =>
    cell.failure === null ? [] : [`- ${placeOf(cell)} failed: ${oneLine(cell.failure)}`],
  )
  return [
    ...circumstances(cells, endpoints),
    '',
    ...table,
    ...(failed.length > 0 ? ['', ...failed] : []),
    ...(missing.length > 0 ? ['', `Not measured: ${missing.join('; ')}.`] : []),
  ].join('\n')
}

/** `at 5,000 kube-proxy/ipvs, kube-proxy/nftables`; undefined when nothing is missing. */
function missingAt(services: number, cells: readonly Cell[], endpoints: number): string | undefined {
  const missing = SERIES_NAMES.filter((series) => cellOf(cells, { series, services, endpoints }) === undefined)
  if (missing.length === 0) return undefined
  return `at ${formatNumber(services, 0)} ${missing.length === SERIES_NAMES.length ? 'all' : missing.join(', ')}`
}

const placeOf = ({ series, services }: CellName): string => `${series} at ${formatNumber(services, 0)}`
const oneLine = (text: string): string =>
  text.trim().split('\n').slice(0, 2).join(' ').replaceAll('|', '\\|').slice(0, 300)

const HEADING = [
  'Services',
  'program/way',
  'cold start (s)',
  'its CPU (s)',
  'change p50 (ms)',
  'change p99 (ms)',
  'changes',
  'CPU at rest (%)',
  'RSS (MiB)',
  'peak RSS (MiB)',
]

function rowOf({ services, series, measured, limits }: Cell): string[] {
  const first = [formatNumber(services, 0), series]
  if (measured === null) return [...first, ...HEADING.slice(first.length).map(() => 'failed')]
  const { coldStartMs, coldStartCpuMs, changeP50Ms, changeP99Ms, changes, idleCpuPercent, rssMiB, peakRssMiB } =
    measured
  return [
    ...first,
    figureText(scaled(coldStartMs, 1000), 2),
    figureText(scaled(coldStartCpuMs, 1000), 2),
    figureText(changeP50Ms, 1),
    figureText(changeP99Ms, 1),
    formatNumber(changes, 0),
    idleCpuPercent === 0 ? `< ${formatNumber(TICK_MS / 10 / limits.idleSeconds, 2)}` : figureText(idleCpuPercent, 2),
    figureText(rssMiB, 0),
    figureText(peakRssMiB, 0),
  ]
}

function figureText(figure: Figure, digits: number): string {
  return figure === null || typeof figure === 'number'
    ? formatNumber(figure, digits)
    : `> ${formatNumber(figure.moreThan, figure.moreThan >= 10 ? 0 : digits)}`
}

/** When, where and with which programs and limits the cells were measured, and whether the machine was quiet. */
function circumstances(cells: readonly Cell[], endpoints: number): string[] {
  const distinct = (pick: (cell: Cell) => string): string => [...new Set(cells.map(pick))].join(', ')
  const times = cells.map((cell) => cell.at.slice(0, 16).replace('T', ' ')).toSorted()
  const calibrations = cells.flatMap((cell) => cell.calibration ?? [])
  const range = (name: string, values: readonly number[], digits: number): string =>
    values.length === 0
      ? ''
      : `${name} ${formatNumber(Math.min(...values), digits)} to ${formatNumber(Math.max(...values), digits)} µs`
  const reasons = reasonsAgainst({
    disturbances: cells.map((cell) => cell.load),
    calibrations,
    results: [],
  })
  return [
    `Measured from ${times[0]} to ${times.at(-1)} UTC: ${distinct(({ version }) => version)} with Node ${distinct(({ node }) => node)}, ` +
      `commits ${distinct(({ commit }) => (commit === null ? 'unknown' : `${commit.hash.slice(0, 12)}${commit.changed ? ' with changes' : ''}`))}, ` +
      `kernel ${distinct(({ kernel }) => `${kernel.kind} ${kernel.release ?? ''}`.trim())} on one processor of ` +
      `${distinct(({ machine }) => `${machine.processors} (${machine.model})`)}. ${endpoints} endpoints a Service, at rest for ` +
      `${distinct(({ limits }) => `${limits.idleSeconds}`)} s; limits: ${distinct(({ limits }) => `${limits.coldStartSeconds}`)} s for a cold start, ` +
      `${distinct(({ limits }) => `${limits.changeSeconds}`)} s for a change.`,
    '',
    ...(calibrations.length === 0
      ? []
      : [
          `Calibration in the boots of the cells: ${range(
            'a system call took',
            calibrations.map((one) => one.systemCallUs),
            2,
          )}, ${range(
            'a page fault',
            calibrations.map((one) => one.pageFaultUs),
            2,
          )}, ${range(
            'the start of a process',
            calibrations.map((one) => one.processStartUs),
            0,
          )}, ${range(
            'the arithmetic loop',
            calibrations.map((one) => one.arithmeticUs),
            0,
          )}.`,
          '',
        ]),
    reasons.length === 0
      ? 'The machine was quiet enough for the figures to be compared.'
      : `**The machine was too busy for exact figures**: ${reasons.join('; ')}. The shape of the curves is what to read here.`,
  ]
}
