/**
 * The one place where text of commands leaves: standard output, standard error, and the lines of a
 * screen. Names and texts of others may contain anything, so what a terminal would interpret is
 * escaped here, except colours of this program. A rule checks that nothing goes around it.
 */
import { errorText } from '../values/errors.ts'
import type { Log, LogFields } from '../values/log.ts'
import { printable, printableJson } from '../values/quote.ts'
import { finishStyles, type Style, styleFor } from './style.ts'

/** A line as it is written: on one line, without anything that a terminal interprets but colours. */
export function finishLine(line: string): string {
  return finishStyles(line, printable)
}

/** Writes lines to standard output. */
export function printLines(lines: readonly string[]): void {
  if (lines.length > 0) process.stdout.write(linesText(lines))
}

/** Writes a text of several lines to standard output; it may end with a line break. */
export function printText(text: string): void {
  printLines(linesOf(text))
}

/** Writes one JSON value on one line to standard output. */
export function printJson(value: unknown): void {
  process.stdout.write(`${printableJson(value) ?? 'null'}\n`)
}

/** Writes a text of several lines to standard error; it may end with a line break. */
export function printErrorText(text: string): void {
  process.stderr.write(linesText(linesOf(text)))
}

const linesOf = (text: string): readonly string[] => text.replace(/\n$/, '').split('\n')
const linesText = (lines: readonly string[]): string => lines.map((line) => `${finishLine(line)}\n`).join('')

/** Standard output as a place for text. */
export interface Page {
  readonly style: Style
  /** Columns of the terminal; undefined: it is none, or its size is not known. */
  readonly columns: number | undefined
}

export function page(): Page {
  const { stdout, env } = process
  return { style: styleFor(stdout, env), columns: stdout.isTTY ? stdout.columns || undefined : undefined }
}

/** Whether a person reads standard error as it is written. */
export function isErrorTerminal(): boolean {
  return process.stderr.isTTY
}

/**
 * Resolves when all that was printed has left, or when nobody reads it any more. A pipe takes 64
 * KiB at once, and the rest as it is read.
 */
export async function outputWritten(): Promise<void> {
  for (const stream of [process.stdout, process.stderr])
    if (stream.writableLength > 0)
      await new Promise<void>((resolve) => {
        stream.once('error', () => resolve())
        stream.write('', () => resolve())
      })
}

/** Calls `listener` when nobody reads standard output any more. */
export function onOutputGone(listener: () => void): void {
  process.stdout.on('error', listener)
}

/** The terminal of this process, for a screen (key-screen.ts), which finishes its lines too. */
export function screenOfProcess() {
  return { input: process.stdin, output: process.stdout, process, environment: process.env }
}

/** One line on the terminal of standard error that is written again and again; nothing elsewhere. */
export class ProgressLine {
  #isOpen = false

  show(text: string): void {
    const { stderr } = process
    if (!stderr.isTTY) return
    this.#isOpen = true
    // A longer line would not be overwritten by the next one.
    stderr.write(`\r\x1b[K${finishLine(text).slice(0, Math.max(1, (stderr.columns || 80) - 1))}`)
  }

  end(): void {
    if (this.#isOpen) process.stderr.write('\r\x1b[K')
    this.#isOpen = false
  }
}

/** The log of commands other than the daemon: warnings and errors as plain lines on standard error, nothing else. */
export const stderrLog: Log = {
  info: () => undefined,
  verbose: () => undefined,
  warn: printLine,
  error: printLine,
  v: () => false,
}

function printLine(message: string, fields: LogFields = {}): void {
  const details = Object.entries(fields).map(([name, value]) => `${name}=${printable(errorText(value))}`)
  printErrorText([printable(message), ...details].join(' '))
}
