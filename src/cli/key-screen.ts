/**
 * A terminal that a command fills with lines and whose keys all belong to the command: `top`, and
 * what scrolls (`live-screen.ts`). However the process ends, the terminal is left as it was.
 */
import { type Key, keysOf } from './keys.ts'
import { finishLine } from '../start/output.ts'

/** The other screen of the terminal, without a cursor, and without breaking lines that are too long. */
const ENTER = '\x1b[?1049h\x1b[?25l\x1b[?7l'
const LEAVE = '\x1b[?7h\x1b[?25h\x1b[?1049l'

/** Whether a screen can be drawn at all: a terminal that understands more than lines. */
export function canDraw(
  output: { readonly isTTY?: boolean | undefined },
  environment: Readonly<Record<string, string | undefined>>,
): boolean {
  return output.isTTY === true && environment['TERM'] !== 'dumb' && (environment['TERM'] ?? '') !== ''
}

/** What is needed of process.stdout. */
export interface ScreenOutput {
  readonly columns?: number | undefined
  readonly rows?: number | undefined
  write(text: string): boolean
  on(event: 'resize', listener: () => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  off(event: 'resize', listener: () => void): unknown
}

/** What is needed of process.stdin. */
export interface ScreenInput {
  setRawMode?: (isRaw: boolean) => unknown
  setEncoding(encoding: 'utf8'): unknown
  on(event: 'data', listener: (text: string) => void): unknown
  on(event: 'end' | 'close', listener: () => void): unknown
  off(event: 'data', listener: (text: string) => void): unknown
  off(event: 'end' | 'close', listener: () => void): unknown
  resume(): unknown
  pause(): unknown
}

/** What is needed of the process: its signals and its end. */
export interface ScreenProcess {
  on(event: NodeJS.Signals | 'exit', listener: () => void): unknown
  off(event: NodeJS.Signals | 'exit', listener: () => void): unknown
}

export interface KeyScreenOptions {
  readonly input: ScreenInput
  readonly output: ScreenOutput
  readonly process: ScreenProcess
  readonly onKey: (key: Key) => void
  /** The size has changed, or the screen must be drawn again. */
  readonly onResize: () => void
  /** The terminal is gone, or a signal ends the process: with this exit code. */
  readonly onEnd: (exitCode: number) => void
}

/** The exit codes of a process that the signal ended: 128 and the signal's number. */
const SIGNALS: readonly (readonly [NodeJS.Signals, number])[] = [
  ['SIGTERM', 143],
  ['SIGINT', 130],
  ['SIGHUP', 129],
  ['SIGQUIT', 131],
]

const [DEFAULT_COLUMNS, DEFAULT_LINES] = [80, 24]

export class KeyScreen {
  readonly #options: KeyScreenOptions
  readonly #undo: (() => void)[] = []
  #isOpen = false

  constructor(options: KeyScreenOptions) {
    this.#options = options
  }

  /** Columns and lines, both at least 1. A terminal that does not know its size counts as 80 by 24. */
  get size(): { readonly columns: number; readonly lines: number } {
    const { columns, rows } = this.#options.output
    return { columns: columns || DEFAULT_COLUMNS, lines: rows || DEFAULT_LINES }
  }

  open(): void {
    const { input, output, process, onKey, onResize, onEnd } = this.#options
    this.#isOpen = true
    const keep = (remove: () => void): void => {
      this.#undo.push(remove)
    }
    const onData = (text: string): void => {
      for (const key of keysOf(text)) {
        if (!this.#isOpen) return
        if (key.name === 'redraw') onResize()
        else onKey(key)
      }
    }
    const onClosed = (): void => onEnd(0)
    const onBroken = (): void => onEnd(0)
    const onContinued = (): void => {
      // A shell may have taken the terminal while this process was stopped.
      input.setRawMode?.(true)
      output.write(ENTER)
      onResize()
    }
    const onExit = (): void => {
      this.close()
      onEnd(1)
    }
    process.on('exit', onExit)
    process.on('SIGCONT', onContinued)
    keep(() => process.off('exit', onExit))
    keep(() => process.off('SIGCONT', onContinued))
    for (const [signal, code] of SIGNALS) {
      const onSignal = (): void => onEnd(code)
      process.on(signal, onSignal)
      keep(() => process.off(signal, onSignal))
    }
    output.on('resize', onResize)
    output.on('error', onBroken)
    // The listener of errors stays: writing LEAVE to a terminal that is gone fails too.
    keep(() => output.off('resize', onResize))
    input.setRawMode?.(true)
    input.setEncoding('utf8')
    input.on('data', onData)
    input.on('end', onClosed)
    input.on('close', onClosed)
    keep(() => input.off('data', onData))
    keep(() => input.off('end', onClosed))
    keep(() => input.off('close', onClosed))
    input.resume()
    output.write(ENTER)
  }

  /** Shows these lines, which fit, in one write, so that nothing flickers. */
  draw(lines: readonly string[]): void {
    if (!this.#isOpen) return
    const text = lines.map((line) => `${finishLine(line)}\x1b[K`).join('\r\n')
    this.#options.output.write(`\x1b[H${text}\x1b[J`)
  }

  /** Leaves the terminal as it was; the second call does nothing. */
  close(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    for (const undo of this.#undo) undo()
    const { input, output } = this.#options
    output.write(LEAVE)
    try {
      input.setRawMode?.(false)
    } catch {
      // The terminal is gone.
    }
    input.pause()
  }
}
