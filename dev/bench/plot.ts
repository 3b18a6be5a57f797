/** Line charts as SVG, without a library. Pure: the same chart gives the same text. Colours follow the reader's light or dark theme. */

/** A value of which only one limit is known: drawn as an open marker at the limit, with an arrow to the side of the value. */
export interface Bound {
  readonly x: number
  readonly y: number
  readonly side: 'above' | 'below'
}

export interface Series {
  readonly name: string
  /** Each colour has its own marker, so that colour is never the only difference. */
  readonly colour: Colour
  readonly dashed?: boolean
  readonly points: readonly (readonly [x: number, y: number])[]
  readonly bounds?: readonly Bound[]
}

export interface Chart {
  readonly title: string
  readonly xLabel: string
  /** With the unit. */
  readonly yLabel: string
  /** A linear axis begins at 0, which is the default. The values of a logarithmic one must be positive. */
  readonly xScale?: 'linear' | 'log'
  /** A logarithmic one shows whole decades. */
  readonly yScale: 'linear' | 'log'
  readonly series: readonly Series[]
  /** Below the chart, about what the lines cannot show. */
  readonly note?: string
}

const WIDTH = 720
const HEIGHT = 440
/** Of a line of the note, and how many characters it has at most. */
const NOTE = { height: 20, length: 104 } as const
const PLOT = { left: 84, right: 692, bottom: 376 } as const
const TICKS = 5
const LEGEND = { top: 52, row: 22, column: 304 } as const
/** The distance of the least and the largest size from the ends of a logarithmic axis. */
const LOG_MARGIN = 28
/** Bounds of several series at one size stand beside each other, so far apart. */
const BOUND_STEP = 9
const ARROW = { from: 7, to: 17, wing: 3.5 } as const

/** Each with its colour in the light and in the dark theme. */
const COLOURS = {
  first: ['#0757ba', '#6cb6ff'],
  second: ['#a83c00', '#f69d50'],
  third: ['#116329', '#57ab5a'],
  fourth: ['#7a3fd1', '#b083f0'],
  fifth: ['#b0125b', '#f27bb5'],
  sixth: ['#4d5660', '#b6c2cf'],
} as const satisfies Readonly<Record<string, readonly [light: string, dark: string]>>
export type Colour = keyof typeof COLOURS
const NAMES = Object.keys(COLOURS) as readonly Colour[] // the keys of the literal above

const themed = (theme: 0 | 1): string =>
  NAMES.map((name) => {
    const colour = COLOURS[name][theme]
    return `.${name} { stroke: ${colour} } .${name}.marker { fill: ${colour} }`
  }).join('\n')

const STYLE = `
svg { color-scheme: light dark; font: 13px system-ui, sans-serif }
.back { fill: #ffffff } text { fill: #1f2328 } .title { font-size: 16px; font-weight: 600 }
.grid { stroke: #d1d9e0 } .axis { stroke: #59636e }
.line { fill: none; stroke-width: 2 } .dashed { stroke-dasharray: 6 4 } .towards { stroke-dasharray: 2 4 }
${themed(0)}
.marker.open { fill: #ffffff; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
.back { fill: #0d1117 } text { fill: #e6edf3 } .grid { stroke: #30363d } .axis { stroke: #9198a1 }
${themed(1)}
.marker.open { fill: #0d1117 }
}`

/** A whole SVG document. */
export function svgOf(chart: Chart): string {
  const bounds = chart.series.flatMap((series) => series.bounds ?? [])
  const values = chart.series.flatMap(({ points }) => points.map(([, y]) => y))
  const ys = [...values, ...bounds.map(({ y }) => y)]
  const sizes = [...chart.series.flatMap(({ points }) => points.map(([x]) => x)), ...bounds.map(({ x }) => x)]
  const xs = [...new Set(sizes)].toSorted((a, b) => a - b)
  const yTicks = chart.yScale === 'log' ? logTicks(ys) : linearTicks(Math.max(0, ...ys))
  const x = xAxis(chart.xScale ?? 'linear', xs)
  const top = LEGEND.top + LEGEND.row * Math.max(2, Math.ceil(chart.series.length / 2))
  const y = yAxis(chart.yScale, yTicks, top)
  const note = chart.note === undefined ? [] : wrapped(chart.note, NOTE.length)
  const height = HEIGHT + NOTE.height * note.length
  const lines = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">`,
    `<title>${escape(chart.title)}</title>`,
    `<style>${STYLE}\n</style>`,
    `<rect class="back" width="${WIDTH}" height="${height}"/>`,
    `<text class="title" x="20" y="30">${escape(chart.title)}</text>`,
    ...chart.series.flatMap(legend),
    ...yTicks.flatMap((tick) => [
      `<line class="grid" x1="${PLOT.left}" x2="${PLOT.right}" y1="${y(tick)}" y2="${y(tick)}"/>`,
      `<text x="${PLOT.left - 8}" y="${y(tick) + 4}" text-anchor="end">${short(tick)}</text>`,
    ]),
    ...xs.flatMap((tick) => [
      `<line class="axis" x1="${x(tick)}" x2="${x(tick)}" y1="${PLOT.bottom}" y2="${PLOT.bottom + 5}"/>`,
      `<text x="${x(tick)}" y="${PLOT.bottom + 20}" text-anchor="middle">${grouped(tick)}</text>`,
    ]),
    `<line class="axis" x1="${PLOT.left}" x2="${PLOT.right}" y1="${PLOT.bottom}" y2="${PLOT.bottom}"/>`,
    `<line class="axis" x1="${PLOT.left}" x2="${PLOT.left}" y1="${top}" y2="${PLOT.bottom}"/>`,
    `<text x="${(PLOT.left + PLOT.right) / 2}" y="${HEIGHT - 18}" text-anchor="middle">${escape(chart.xLabel)}</text>`,
    `<text transform="translate(16 ${(top + PLOT.bottom) / 2}) rotate(-90)" text-anchor="middle">${escape(chart.yLabel)}</text>`,
    ...note.map((line, index) => `<text x="20" y="${HEIGHT + 6 + index * NOTE.height}">${escape(line)}</text>`),
    ...chart.series.flatMap((series, index) =>
      drawn(series, { x, y, shift: (index - (chart.series.length - 1) / 2) * BOUND_STEP }),
    ),
    '</svg>',
  ]
  return `${lines.join('\n')}\n`
}

/** Two entries in a row. */
function legend(series: Series, index: number): string[] {
  const left = PLOT.left + (index % 2) * LEGEND.column
  const middle = LEGEND.top + Math.floor(index / 2) * LEGEND.row
  return [
    polyline(series, [
      [left, middle],
      [left + 36, middle],
    ]),
    marker(series, left + 18, middle),
    `<text x="${left + 46}" y="${middle + 4}">${escape(series.name)}</text>`,
  ]
}

interface Axes {
  readonly x: Scale
  readonly y: Scale
  /** How far the bounds of this series stand from their size. */
  readonly shift: number
}

/** The line through the values, a dotted one from each value to a bound that follows it, and their markers. */
function drawn(series: Series, { x, y, shift }: Axes): string[] {
  const titled = (text: string, drawing: string): string =>
    `<g><title>${escape(`${series.name}: ${text}`)}</title>${drawing}</g>`
  const bounds = (series.bounds ?? []).map((bound) => ({ ...bound, left: hundredth(x(bound.x) + shift) }))
  return [
    ...bounds.flatMap((bound) => {
      const before = series.points.findLast(([px]) => px < bound.x)
      if (before === undefined) return []
      const ends: readonly Place[] = [
        [x(before[0]), y(before[1])],
        [bound.left, y(bound.y)],
      ]
      return [`<polyline class="line ${series.colour} towards" points="${placed(ends)}"/>`]
    }),
    polyline(
      series,
      series.points.map(([px, py]) => [x(px), y(py)]),
    ),
    ...series.points.map(([px, py]) => titled(`${grouped(py)} at ${grouped(px)}`, marker(series, x(px), y(py)))),
    ...bounds.map((bound) =>
      titled(
        `${bound.side === 'above' ? 'more' : 'less'} than ${grouped(bound.y)} at ${grouped(bound.x)}`,
        `${arrow(series, bound.left, y(bound.y), bound.side)}${marker(series, bound.left, y(bound.y), ' open')}`,
      ),
    ),
  ]
}

type Place = readonly [x: number, y: number]
const placed = (places: readonly Place[]): string => places.map(([x, y]) => `${x},${y}`).join(' ')

function polyline({ colour, dashed }: Series, points: readonly Place[]): string {
  return `<polyline class="line ${colour}${dashed === true ? ' dashed' : ''}" points="${placed(points)}"/>`
}

function arrow({ colour }: Series, x: number, y: number, side: Bound['side']): string {
  const up = side === 'above' ? -1 : 1
  const tip = hundredth(y + up * ARROW.to)
  const wings = hundredth(y + up * (ARROW.to - ARROW.wing))
  return (
    `<path class="line ${colour}" d="M${x},${hundredth(y + up * ARROW.from)} L${x},${tip} ` +
    `M${hundredth(x - ARROW.wing)},${wings} L${x},${tip} L${hundredth(x + ARROW.wing)},${wings}"/>`
  )
}

/** @param more further classes, each with a space before it */
function marker({ colour }: Series, x: number, y: number, more = ''): string {
  const name = `class="marker ${colour}${more}"`
  const path = (...corners: Place[]): string =>
    `<path ${name} d="M${corners.map(([dx, dy]) => `${hundredth(x + dx)},${hundredth(y + dy)}`).join(' L')} Z"/>`
  switch (colour) {
    case 'first':
      return `<circle ${name} cx="${x}" cy="${y}" r="4"/>`
    case 'second':
      return `<rect ${name} x="${hundredth(x - 4)}" y="${hundredth(y - 4)}" width="8" height="8"/>`
    case 'third':
      return path([0, -5], [5, 4], [-5, 4])
    case 'fourth':
      return path([0, -5.5], [5.5, 0], [0, 5.5], [-5.5, 0])
    case 'fifth':
      return path([0, 5], [5, -4], [-5, -4])
    case 'sixth':
      return path([-2, -5], [2, -5], [5, -2], [5, 2], [2, 5], [-2, 5], [-5, 2], [-5, -2])
  }
}

type Scale = (value: number) => number

function linear(from: number, to: number, start: number, end: number): Scale {
  return (value) => hundredth(start + ((value - from) / (to - from)) * (end - start))
}

function logarithmic(from: number, to: number, start: number, end: number): Scale {
  const scale = linear(Math.log10(from), Math.log10(to), start, end)
  return (value) => scale(Math.log10(value))
}

/** @param xs in ascending order */
function xAxis(kind: 'linear' | 'log', xs: readonly number[]): Scale {
  const [first = 1, last = 1] = [xs[0], xs.at(-1)]
  if (kind === 'linear') return linear(0, Math.max(1, last), PLOT.left, PLOT.right)
  // One size alone stands in the middle.
  const [from, to] = first === last ? [first / 2, last * 2] : [first, last]
  return logarithmic(from, to, PLOT.left + LOG_MARGIN, PLOT.right - LOG_MARGIN)
}

function yAxis(kind: Chart['yScale'], ticks: readonly number[], top: number): Scale {
  const [first = 0, last = 1] = [ticks[0], ticks.at(-1)]
  return (kind === 'linear' ? linear : logarithmic)(first, last, PLOT.bottom, top)
}

/** 0 and multiples of 1, 2 or 5 times a power of ten, the last one not below `most`. */
export function linearTicks(most: number): number[] {
  const rough = (most > 0 ? most : 1) / TICKS
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough * (1 - 1e-9)) ?? 10) * power
  const count = Math.ceil((most > 0 ? most : 1) / step - 1e-9)
  return Array.from({ length: count + 1 }, (_, index) => Number((index * step).toPrecision(12)))
}

/** Powers of ten around all values, at least two. */
export function logTicks(values: readonly number[]): number[] {
  if (values.length === 0) return [1, 10]
  const first = Math.floor(Math.log10(Math.min(...values)))
  const last = Math.max(first + 1, Math.ceil(Math.log10(Math.max(...values))))
  return Array.from({ length: last - first + 1 }, (_, index) => Number((10 ** (first + index)).toPrecision(12)))
}

/** Lines of at most so many characters, unless a word is longer. */
function wrapped(text: string, length: number): string[] {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const line = lines.at(-1)
    if (line === undefined || line.length + 1 + word.length > length) lines.push(word)
    else lines[lines.length - 1] = `${line} ${word}`
  }
  return lines
}

const hundredth = (value: number): number => Math.round(value * 100) / 100
/** `12,345.6` */
const grouped = (value: number): string => value.toLocaleString('en-US', { maximumFractionDigits: 3 })

/** The same, with room for it beside the axis: `1 M` for a million. */
const short = (value: number): string => (value >= 1e6 ? `${grouped(value / 1e6)} M` : grouped(value))

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
const escape = (text: string): string => text.replace(/[&<>"]/g, (character) => ESCAPES[character] ?? character)
