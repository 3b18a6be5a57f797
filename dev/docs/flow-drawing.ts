/**
 * Draws columns of steps, one below the other, as SVG. Pure: the same drawing gives the same text. Colours follow the reader's
 * light or dark theme, and each kind of step is named as well, so that colour is never the only difference.
 */

/** What handles the packet at a step. */
export type StepKind = 'end' | 'nat' | 'filter' | 'ipvs' | 'kernel'

/** A paragraph of a step. Text in backticks is set in a monospaced font. */
export type Paragraph =
  | string
  /** One entry of a list. */
  | { readonly item: string }
  /** The packet ends here: it is refused with an answer, or dropped without one. */
  | { readonly ends: 'REJECT' | 'DROP'; readonly text: string }

export interface Step {
  readonly kind: StepKind
  readonly title: string
  /** Where in the kernel this happens: `nat PREROUTING`. */
  readonly place?: string
  readonly paragraphs: readonly Paragraph[]
}

export interface Column {
  readonly title: string
  readonly steps: readonly Step[]
}

export interface Drawing {
  readonly title: string
  readonly columns: readonly Column[]
}

const MARGIN = 24
const COLUMN = { width: 348, gap: 28, top: 92 } as const
const CARD = { padding: 16, bar: 5, head: 26, foot: 10, arrow: 26, radius: 8 } as const
const LINE_HEIGHT = 18
const PARAGRAPH_GAP = 5
const TEXT_WIDTH = COLUMN.width - CARD.bar - 2 * CARD.padding
/** Widest advance per letter, in pixels of a 13 px font, so that no font of a reader is wider than the card. */
const LETTER = { sans: 6.9, bold: 8.2, mono: 7.3 } as const
const BADGE_WIDTH = 58
const BULLET_WIDTH = 14

const KIND_NAMES: Readonly<Record<StepKind, string>> = {
  nat: 'table nat',
  filter: 'table filter',
  ipvs: 'IPVS',
  kernel: 'routing and conntrack',
  end: 'client or endpoint',
}

const STYLE = `
svg { color-scheme: light dark; font: 13px system-ui, "DejaVu Sans", sans-serif }
text { fill: #1f2328 } .back { fill: #ffffff } .card { fill: #f6f8fa; stroke: #d1d9e0 }
.title { font-size: 20px; font-weight: 600 } .column { font-size: 15px; font-weight: 600 } .step { font-weight: 600 }
.place, .code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 12px } .place, .legend { fill: #59636e }
.arrow { stroke: #59636e; stroke-width: 1.5; fill: none } .head, .bullet { fill: #59636e }
.nat { fill: #0969da } .filter { fill: #bc4c00 } .ipvs { fill: #1a7f37 } .kernel { fill: #6e7781 } .end { fill: #8250df }
.badge { fill: #cf222e } .badge-text { fill: #ffffff; font-size: 11px; font-weight: 600 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .back { fill: #0d1117 } .card { fill: #161b22; stroke: #30363d } .place, .legend { fill: #9198a1 }
.arrow { stroke: #9198a1 } .head, .bullet { fill: #9198a1 }
.nat { fill: #58a6ff } .filter { fill: #f0883e } .ipvs { fill: #3fb950 } .kernel { fill: #9198a1 } .end { fill: #bc8cff }
.badge { fill: #da3633 } .badge-text { fill: #ffffff }
}`

/** A whole SVG document. */
export function drawingSvg({ title, columns }: Drawing): string {
  const drawn = columns.map((column, index) => drawColumn(column, MARGIN + index * (COLUMN.width + COLUMN.gap)))
  const width = 2 * MARGIN + columns.length * COLUMN.width + (columns.length - 1) * COLUMN.gap
  const height = Math.max(...drawn.map(({ bottom }) => bottom)) + MARGIN
  const lines = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<title>${escape(title)}</title>`,
    `<style>${STYLE}\n</style>`,
    `<rect class="back" width="${width}" height="${height}"/>`,
    `<text class="title" x="${MARGIN}" y="38">${escape(title)}</text>`,
    ...legend(columns, width),
    ...drawn.flatMap(({ parts }) => parts),
    '</svg>',
  ]
  return `${lines.join('\n')}\n`
}

/** The kinds of step that the drawing has, at its right edge. */
function legend(columns: readonly Column[], width: number): string[] {
  const used = new Set(columns.flatMap(({ steps }) => steps.map(({ kind }) => kind)))
  let right = width - MARGIN
  return Object.entries(KIND_NAMES)
    .filter(([kind]) => [...used].some((one) => one === kind))
    .toReversed()
    .flatMap(([kind, name]) => {
      right -= name.length * LETTER.sans
      const text = `<text class="legend" x="${round(right)}" y="38">${escape(name)}</text>`
      right -= 18
      const square = `<rect class="${kind}" x="${round(right)}" y="27" width="12" height="12" rx="3"/>`
      right -= 18
      return [square, text]
    })
}

function drawColumn({ title, steps }: Column, left: number): { readonly parts: string[]; readonly bottom: number } {
  const parts = [`<text class="column" x="${left}" y="${COLUMN.top - 16}">${escape(title)}</text>`]
  let top: number = COLUMN.top
  for (const [index, step] of steps.entries()) {
    if (index > 0) {
      parts.push(arrow(left + COLUMN.width / 2, top))
      top += CARD.arrow
    }
    const card = drawCard(step, left, top)
    parts.push(...card.parts)
    top = card.bottom
  }
  return { parts, bottom: top }
}

function arrow(x: number, top: number): string {
  const end = top + CARD.arrow - 3
  const line = `M${x} ${top + 3}V${end - 6}`
  return `<path class="arrow" d="${line}"/><path class="head" d="M${x - 5} ${end - 8}h10l-5 8z"/>`
}

function drawCard(step: Step, left: number, top: number): { readonly parts: string[]; readonly bottom: number } {
  const { kind, title, place, paragraphs } = step
  const textLeft = left + CARD.bar + CARD.padding
  const parts: string[] = []
  let y = top + CARD.head
  parts.push(`<text class="step" x="${textLeft}" y="${y}">${escape(title)}</text>`)
  if (place !== undefined) {
    const right = left + COLUMN.width - CARD.padding
    parts.push(`<text class="place" x="${right}" y="${y}" text-anchor="end">${escape(place)}</text>`)
  }
  for (const paragraph of paragraphs) {
    y += PARAGRAPH_GAP
    const { text, indent, sign } = parted(paragraph)
    for (const [index, line] of wrap(text, TEXT_WIDTH - indent).entries()) {
      y += LINE_HEIGHT
      if (index === 0) parts.push(...sign(textLeft, y))
      parts.push(`<text x="${textLeft + indent}" y="${y}">${line.map(wordSvg).join('')}</text>`)
    }
  }
  const bottom = y + CARD.foot + 4
  const box = `x="${left}" y="${top}" width="${COLUMN.width}" height="${bottom - top}" rx="${CARD.radius}"`
  const side = `<path class="${kind}" d="M${left + CARD.radius} ${top}h-2a6 6 0 0 0 -6 6v${bottom - top - 12}a6 6 0 0 0 6 6h2z"/>`
  return { parts: [`<rect class="card" ${box}/>`, side, ...parts], bottom }
}

interface Parted {
  readonly text: string
  /** Pixels from the left edge of the other paragraphs. */
  readonly indent: number
  /** What stands in front of the first line, at its base line. */
  readonly sign: (x: number, y: number) => readonly string[]
}

function parted(paragraph: Paragraph): Parted {
  if (typeof paragraph === 'string') return { text: paragraph, indent: 0, sign: () => [] }
  if ('item' in paragraph)
    return {
      text: paragraph.item,
      indent: BULLET_WIDTH,
      sign: (x, y) => [`<circle class="bullet" cx="${x + 4}" cy="${y - 4}" r="2"/>`],
    }
  return { text: paragraph.text, indent: BADGE_WIDTH, sign: (x, y) => [badge(paragraph.ends, x, y)] }
}

function badge(text: string, x: number, y: number): string {
  const width = BADGE_WIDTH - 8
  return (
    `<rect class="badge" x="${x}" y="${y - 12}" width="${width}" height="16" rx="4"/>` +
    `<text class="badge-text" x="${x + width / 2}" y="${y}" text-anchor="middle">${text}</text>`
  )
}

interface Word {
  readonly text: string
  readonly isCode: boolean
}

/** Words with the space after each, so that a line is their texts in order. */
function wordsOf(paragraph: string): Word[] {
  return paragraph.split('`').flatMap((part, index) => {
    const isCode = index % 2 === 1
    return (part.match(/\S+\s*|\s+/g) ?? []).map((text) => ({ text, isCode }))
  })
}

const widthOf = ({ text, isCode }: Word): number => text.trimEnd().length * (isCode ? LETTER.mono : LETTER.sans)
const spaceAfter = ({ text }: Word): number => (/\s$/.test(text) ? LETTER.sans * 0.6 : 0)

/** Whether the title of a step and its place fit into one line. */
export function headFits({ title, place = '' }: Step): boolean {
  return title.length * LETTER.bold + LETTER.sans + place.length * LETTER.mono <= TEXT_WIDTH
}

/** Lines of at most this width. Pieces without a space between them, such as a name and its comma, stay together. */
export function wrap(paragraph: string, width: number): Word[][] {
  const lines: Word[][] = []
  let line: Word[] = []
  let used = 0
  for (const piece of piecesOf(wordsOf(paragraph))) {
    const wide = piece.reduce((sum, word) => sum + widthOf(word), 0)
    if (line.length > 0 && used + wide > width) {
      lines.push(line)
      line = []
      used = 0
    }
    line.push(...piece)
    used += wide + piece.reduce((sum, word) => sum + spaceAfter(word), 0)
  }
  return line.length === 0 ? lines : [...lines, line]
}

/** Words grouped so that a new group begins after each space. */
function piecesOf(words: readonly Word[]): Word[][] {
  const pieces: Word[][] = []
  let open = false
  for (const word of words) {
    if (open) pieces.at(-1)?.push(word)
    else pieces.push([word])
    open = !/\s$/.test(word.text)
  }
  return pieces
}

function wordSvg({ text, isCode }: Word): string {
  return isCode ? `<tspan class="code">${escape(text)}</tspan>` : escape(text)
}

const round = (value: number): number => Math.round(value * 10) / 10

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
const escape = (text: string): string => text.replace(/[&<>"]/g, (letter) => ENTITIES[letter] ?? letter)
