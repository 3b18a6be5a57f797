/**
 * Line charts as SVG. Pure: the same chart gives the same text. Colours follow the reader's light or dark theme. No library: those that draw without a
 * browser bring 62 packages and more (@observablehq/plot with a DOM) or a bundle larger than this project (echarts).
 */

/** A value of which only one limit is known: an open marker at the limit, with an arrow to the side of the value. */
export interface Bound {
  readonly x: number
  readonly y: number
  readonly side: 'above' | 'below'
}

export interface Line {
  readonly name: string
  /** The number of a colour and a marker, from 0 to 5: colour is never the only difference. */
  readonly look: number
  readonly dashed: boolean
  readonly points: readonly (readonly [x: number, y: number])[]
  readonly bounds: readonly Bound[]
}

export interface Chart {
  readonly title: string
  readonly xLabel: string
  /** With the unit. */
  readonly yLabel: string
  /** A linear axis begins at 0. The values of a logarithmic one must be positive, and it shows whole decades. */
  readonly xScale: 'linear' | 'log'
  readonly yScale: 'linear' | 'log'
  readonly lines: readonly Line[]
  /** Below the chart, about what the lines cannot show; '' for nothing. */
  readonly note: string
}

/** Each with its colour in the light and in the dark theme, and its marker around the origin. */
const LOOKS = [
  ['#0757ba', '#6cb6ff', 'M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0Z'],
  ['#a83c00', '#f69d50', 'M-4,-4h8v8h-8Z'],
  ['#116329', '#57ab5a', 'M0,-5L5,4L-5,4Z'],
  ['#7a3fd1', '#b083f0', 'M0,-5.5L5.5,0L0,5.5L-5.5,0Z'],
  ['#b0125b', '#f27bb5', 'M0,5L5,-4L-5,-4Z'],
  ['#4d5660', '#b6c2cf', 'M-2,-5h4l3,3v4l-3,3h-4l-3,-3v-4Z'],
] as const
const WIDTH = 720
const HEIGHT = 440
const PLOT = { left: 84, right: 692, bottom: 376 } as const
const LEGEND = { top: 52, row: 22, column: 304 } as const
const NOTE = { height: 20, characters: 104 } as const
/** The distance of the least and the largest size from the ends of a logarithmic axis. */
const LOG_MARGIN = 28
/** Bounds of several lines at one size stand beside each other, so far apart. */
const BOUND_STEP = 9
const ARROWS = { above: 'M0,-7V-17M-3.5,-13.5L0,-17L3.5,-13.5', below: 'M0,7V17M-3.5,13.5L0,17L3.5,13.5' } as const

const themed = (theme: 0 | 1, back: string, text: string, grid: string, axis: string): string =>
  [
    `.back { fill: ${back} } text { fill: ${text} } .grid { stroke: ${grid} } .axis { stroke: ${axis} }`,
    ...LOOKS.map(
      (look, index) => `.look${index} { stroke: ${look[theme]} } .look${index}.marker { fill: ${look[theme]} }`,
    ),
    `.marker.open { fill: ${back}; stroke-width: 2 }`,
  ].join('\n')
const STYLE = `
svg { color-scheme: light dark; font: 13px system-ui, sans-serif } .title { font-size: 16px; font-weight: 600 }
.line { fill: none; stroke-width: 2 } .dashed { stroke-dasharray: 6 4 } .towards { stroke-dasharray: 2 4 }
${themed(0, '#ffffff', '#1f2328', '#d1d9e0', '#59636e')}
@media (prefers-color-scheme: dark) {
${themed(1, '#0d1117', '#e6edf3', '#30363d', '#9198a1')}
}`

/** A whole SVG document. */
export function svgOf({ title, xLabel, yLabel, xScale, yScale, lines, note }: Chart): string {
  const places = lines.flatMap(({ points, bounds }) => [...points, ...bounds.map(({ x, y }) => [x, y] as const)])
  const xs = [...new Set(places.map(([x]) => x))].toSorted((a, b) => a - b)
  const ys = places.map(([, y]) => y)
  const ticks = yScale === 'log' ? logTicks(ys) : linearTicks(Math.max(0, ...ys))
  const top = LEGEND.top + LEGEND.row * Math.max(2, Math.ceil(lines.length / 2))
  const y = scaleOf(yScale, [ticks[0] ?? 0, ticks.at(-1) ?? 1], [PLOT.bottom, top])
  const [first = 1, last = 1] = [xs[0], xs.at(-1)]
  const x =
    xScale === 'linear'
      ? scaleOf('linear', [0, Math.max(1, last)], [PLOT.left, PLOT.right])
      : // One size alone stands in the middle.
        scaleOf('log', first === last ? [first / 2, last * 2] : [first, last], [
          PLOT.left + LOG_MARGIN,
          PLOT.right - LOG_MARGIN,
        ])
  const notes = note.match(new RegExp(`.{1,${NOTE.characters}}(?= |$)`, 'g')) ?? []
  const height = HEIGHT + NOTE.height * notes.length
  const text = (left: number, at: number, anchor: string, words: string): string =>
    `<text x="${left}" y="${at}" text-anchor="${anchor}">${escape(words)}</text>`
  const document = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">`,
    `<title>${escape(title)}</title>`,
    `<style>${STYLE}\n</style>`,
    `<rect class="back" width="${WIDTH}" height="${height}"/>`,
    `<text class="title" x="20" y="30">${escape(title)}</text>`,
    ...lines.flatMap((line, index) => {
      const [left, middle] = [PLOT.left + (index % 2) * LEGEND.column, LEGEND.top + Math.floor(index / 2) * LEGEND.row]
      const stroke = polyline(line, [
        [left, middle],
        [left + 36, middle],
      ])
      return [stroke, marker(line, left + 18, middle), text(left + 46, middle + 4, 'start', line.name)]
    }),
    ...ticks.flatMap((tick) => [
      `<line class="grid" x1="${PLOT.left}" x2="${PLOT.right}" y1="${y(tick)}" y2="${y(tick)}"/>`,
      text(PLOT.left - 8, y(tick) + 4, 'end', tick >= 1e6 ? `${grouped(tick / 1e6)} M` : grouped(tick)),
    ]),
    ...xs.flatMap((tick) => [
      `<line class="axis" x1="${x(tick)}" x2="${x(tick)}" y1="${PLOT.bottom}" y2="${PLOT.bottom + 5}"/>`,
      text(x(tick), PLOT.bottom + 20, 'middle', grouped(tick)),
    ]),
    `<path class="line axis" d="M${PLOT.left},${top}V${PLOT.bottom}H${PLOT.right}"/>`,
    text((PLOT.left + PLOT.right) / 2, HEIGHT - 18, 'middle', xLabel),
    `<text transform="translate(16 ${(top + PLOT.bottom) / 2}) rotate(-90)" text-anchor="middle">${escape(yLabel)}</text>`,
    ...notes.map((line, index) => text(20, HEIGHT + 6 + index * NOTE.height, 'start', line.trim())),
    ...lines.flatMap((line, index) => drawn(line, x, y, (index - (lines.length - 1) / 2) * BOUND_STEP)),
    '</svg>',
  ]
  return `${document.join('\n')}\n`
}

type Scale = (value: number) => number

/** @param shift how far the bounds of this line stand from their size */
function drawn(line: Line, x: Scale, y: Scale, shift: number): string[] {
  const titled = (words: string, drawing: string): string =>
    `<g><title>${escape(`${line.name}: ${words}`)}</title>${drawing}</g>`
  return [
    ...line.bounds.flatMap((bound) => {
      const before = line.points.findLast(([px]) => px < bound.x)
      const ends = before && [
        [x(before[0]), y(before[1])] as const,
        [hundredth(x(bound.x) + shift), y(bound.y)] as const,
      ]
      return ends === undefined ? [] : [polyline({ ...line, dashed: false }, ends, ' towards')]
    }),
    polyline(
      line,
      line.points.map(([px, py]) => [x(px), y(py)]),
    ),
    ...line.points.map(([px, py]) => titled(`${grouped(py)} at ${grouped(px)}`, marker(line, x(px), y(py)))),
    ...line.bounds.map((bound) => {
      const words = `${bound.side === 'above' ? 'more' : 'less'} than ${grouped(bound.y)} at ${grouped(bound.x)}`
      const [left, at] = [hundredth(x(bound.x) + shift), y(bound.y)]
      const arrow = `<path class="line look${line.look}" transform="translate(${left} ${at})" d="${ARROWS[bound.side]}"/>`
      return titled(words, `${arrow}${marker(line, left, at, ' open')}`)
    }),
  ]
}

function polyline({ look, dashed }: Line, places: readonly (readonly [number, number])[], more = ''): string {
  const points = places.map(([x, y]) => `${x},${y}`).join(' ')
  return `<polyline class="line look${look}${dashed ? ' dashed' : ''}${more}" points="${points}"/>`
}

const marker = ({ look }: Line, x: number, y: number, more = ''): string =>
  `<path class="marker look${look}${more}" transform="translate(${x} ${y})" d="${LOOKS[look % LOOKS.length]?.[2]}"/>`

function scaleOf(
  kind: 'linear' | 'log',
  [from, to]: readonly [number, number],
  [start, end]: readonly [number, number],
): Scale {
  const of = kind === 'log' ? Math.log10 : (value: number): number => value
  return (value) => hundredth(start + ((of(value) - of(from)) / (of(to) - of(from))) * (end - start))
}

/** 0 and multiples of 1, 2 or 5 times a power of ten, the last one not below `most`. */
export function linearTicks(most: number): number[] {
  const rough = (most > 0 ? most : 1) / 5
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
