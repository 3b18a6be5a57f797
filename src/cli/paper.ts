/** Lines of a given width: labels with texts beside them, and texts with an indent. */
import { printable } from '../values/quote.ts'
import type { Style, StyleFormat } from '../start/style.ts'

export interface Paper {
  readonly style: Style
  readonly width: number
}

/** Columns of a label and the space after it. */
const LABEL = 18

/**
 * A label with a text beside it; in a narrow terminal the text is below it. Both are escaped before
 * they are measured.
 */
export function labelled(label: string, written: string, paper: Paper, colour?: StyleFormat): string[] {
  const { style, width } = paper
  const text = printable(written)
  const paint = (line: string): string => (colour === undefined ? line : style(colour, line))
  if (width < 3 * LABEL)
    return [style('dim', `  ${label}`), ...wrap(text, width - 4).map((line) => `    ${paint(line)}`)]
  const [first = '', ...more] = wrap(text, width - LABEL - 2)
  return [
    `  ${style('dim', label)}${' '.repeat(Math.max(1, LABEL - label.length))}${paint(first)}`,
    ...more.map((line) => `${' '.repeat(LABEL + 2)}${paint(line)}`),
  ]
}

/** A text whose lines all have the same indent. */
export function hanging(indent: string, text: string, { width }: Paper): string[] {
  return wrap(printable(text), Math.max(8, width - indent.length)).map((line) => `${indent}${line}`)
}

/** Breaks a text at spaces into lines of at most `width` characters; a longer word has its own line. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else {
      line = line === '' ? word : `${line} ${word}`
    }
  }
  return [...lines, line]
}
