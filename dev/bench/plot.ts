/** Line charts as SVG, without a library. Pure: the same chart gives the same text. Colours follow the reader's light or dark theme. */

export interface Series {
  readonly name: string
  /** Each colour has its own marker, so that colour is never the only difference. */
  readonly colour: 'first' | 'second'
  readonly dashed?: boolean
  readonly points: readonly (readonly [x: number, y: number])[]
}

export interface Chart {
  readonly title: string
  readonly xLabel: string
  /** With the unit. */
  readonly yLabel: string
  /** A linear axis begins at 0; a logarithmic one shows whole decades, and its values must be positive. */
  readonly yScale: 'linear' | 'log'
  readonly series: readonly Series[]
}

const WIDTH = 720
const HEIGHT = 440
const PLOT = { left: 84, right: 692, top: 96, bottom: 376 } as const
const TICKS = 5
const LEGEND_COLUMN = 304

const STYLE = `
svg { color-scheme: light dark; font: 13px system-ui, sans-serif }
.back { fill: #ffffff } text { fill: #1f2328 } .title { font-size: 16px; font-weight: 600 }
.grid { stroke: #d1d9e0 } .axis { stroke: #59636e }
.line { fill: none; stroke-width: 2 } .dashed { stroke-dasharray: 6 4 }
.first { stroke: #0757ba } .second { stroke: #a83c00 } .first.marker { fill: #0757ba } .second.marker { fill: #a83c00 }
@media (prefers-color-scheme: dark) {
.back { fill: #0d1117 } text { fill: #e6edf3 } .grid { stroke: #30363d } .axis { stroke: #9198a1 }
.first { stroke: #6cb6ff } .second { stroke: #f69d50 } .first.marker { fill: #6cb6ff } .second.marker { fill: #f69d50 }
}`

/** A whole SVG document. */
export function svgOf(chart: Chart): string {
  const xs = [...new Set(chart.series.flatMap(({ points }) => points.map(([x]) => x)))].toSorted((a, b) => a - b)
  const ys = chart.series.flatMap(({ points }) => points.map(([, y]) => y))
  const yTicks = chart.yScale === 'log' ? logTicks(ys) : linearTicks(Math.max(0, ...ys))
  const x = linear(0, Math.max(1, ...xs), PLOT.left, PLOT.right)
  const y = yAxis(chart.yScale, yTicks)
  const lines = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" role="img">`,
    `<title>${escape(chart.title)}</title>`,
    `<style>${STYLE}\n</style>`,
    `<rect class="back" width="${WIDTH}" height="${HEIGHT}"/>`,
    `<text class="title" x="20" y="30">${escape(chart.title)}</text>`,
    ...chart.series.flatMap(legend),
    ...yTicks.flatMap((tick) => [
      `<line class="grid" x1="${PLOT.left}" x2="${PLOT.right}" y1="${y(tick)}" y2="${y(tick)}"/>`,
      `<text x="${PLOT.left - 8}" y="${y(tick) + 4}" text-anchor="end">${grouped(tick)}</text>`,
    ]),
    ...xs.flatMap((tick) => [
      `<line class="axis" x1="${x(tick)}" x2="${x(tick)}" y1="${PLOT.bottom}" y2="${PLOT.bottom + 5}"/>`,
      `<text x="${x(tick)}" y="${PLOT.bottom + 20}" text-anchor="middle">${grouped(tick)}</text>`,
    ]),
    `<line class="axis" x1="${PLOT.left}" x2="${PLOT.right}" y1="${PLOT.bottom}" y2="${PLOT.bottom}"/>`,
    `<line class="axis" x1="${PLOT.left}" x2="${PLOT.left}" y1="${PLOT.top}" y2="${PLOT.bottom}"/>`,
    `<text x="${(PLOT.left + PLOT.right) / 2}" y="${HEIGHT - 18}" text-anchor="middle">${escape(chart.xLabel)}</text>`,
    `<text transform="translate(22 ${(PLOT.top + PLOT.bottom) / 2}) rotate(-90)" text-anchor="middle">${escape(chart.yLabel)}</text>`,
    ...chart.series.flatMap((series) => [
      polyline(
        series,
        series.points.map(([px, py]) => [x(px), y(py)]),
      ),
      ...series.points.map(
        ([px, py]) =>
          `<g><title>${escape(`${series.name}: ${grouped(py)} at ${grouped(px)}`)}</title>${marker(series, x(px), y(py))}</g>`,
      ),
    ]),
    '</svg>',
  ]
  return `${lines.join('\n')}\n`
}

/** Two entries in a row. */
function legend(series: Series, index: number): string[] {
  const left = PLOT.left + (index % 2) * LEGEND_COLUMN
  const middle = 52 + Math.floor(index / 2) * 22
  return [
    polyline(series, [
      [left, middle],
      [left + 36, middle],
    ]),
    marker(series, left + 18, middle),
    `<text x="${left + 46}" y="${middle + 4}">${escape(series.name)}</text>`,
  ]
}

function polyline({ colour, dashed }: Series, points: readonly (readonly [number, number])[]): string {
  const text = points.map(([x, y]) => `${x},${y}`).join(' ')
  return `<polyline class="line ${colour}${dashed === true ? ' dashed' : ''}" points="${text}"/>`
}

function marker({ colour }: Series, x: number, y: number): string {
  return colour === 'first'
    ? `<circle class="marker first" cx="${x}" cy="${y}" r="4"/>`
    : `<rect class="marker second" x="${hundredth(x - 4)}" y="${hundredth(y - 4)}" width="8" height="8"/>`
}

type Scale = (value: number) => number

function linear(from: number, to: number, start: number, end: number): Scale {
  return (value) => hundredth(start + ((value - from) / (to - from)) * (end - start))
}

function yAxis(kind: Chart['yScale'], ticks: readonly number[]): Scale {
  const [first = 0, last = 1] = [ticks[0], ticks.at(-1)]
  if (kind === 'linear') return linear(first, last, PLOT.bottom, PLOT.top)
  const scale = linear(Math.log10(first), Math.log10(last), PLOT.bottom, PLOT.top)
  return (value) => scale(Math.log10(value))
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

const hundredth = (value: number): number => Math.round(value * 100) / 100
/** `12,345.6` */
const grouped = (value: number): string => value.toLocaleString('en-US', { maximumFractionDigits: 3 })

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
const escape = (text: string): string => text.replace(/[&<>"]/g, (character) => ESCAPES[character] ?? character)
