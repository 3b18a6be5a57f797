/**
 * A part of the terminal that is drawn again and again: `status --watch` and `top`. It has the whole screen while it runs and leaves
 * the terminal as it was, however it ends. Keys scroll, q and Ctrl-C end it.
 */
import { setTimeout as sleep } from 'node:timers/promises'

export interface ScreenSize {
  readonly columns: number
  readonly rows: number
}

export interface LiveView {
  /** Reads what is shown. Its error ends the screen. */
  refresh(signal: AbortSignal): Promise<void>
  /** The lines, none longer than the screen is wide. */
  lines(size: ScreenSize): readonly string[]
  /** A key that the screen itself does not use, as the terminal sends it; true: draw again. */
  key?(key: string): boolean
}

export interface LiveOptions {
  readonly periodMs: number
  readonly input: LiveInput
  readonly output: LiveOutput
  /** Ends the screen, as q does. */
  readonly signal: AbortSignal
}

/** The part of process.stdin that is used. */
export interface LiveInput {
  readonly isTTY?: boolean | undefined
  setRawMode?(raw: boolean): unknown
  on(event: 'data', listener: (chunk: Buffer | string) => void): unknown
  off(event: 'data', listener: (chunk: Buffer | string) => void): unknown
  resume(): unknown
  pause(): unknown
}

/** The part of process.stdout that is used. */
export interface LiveOutput {
  readonly columns?: number | undefined
  readonly rows?: number | undefined
  write(text: string): unknown
  on(event: 'resize' | 'error', listener: () => void): unknown
  off(event: 'resize' | 'error', listener: () => void): unknown
}

/** The other screen of the terminal, without a cursor, and without breaking lines that are too long. */
export const ENTER = '\x1b[?1049h\x1b[?25l\x1b[?7l'
export const LEAVE = '\x1b[?7h\x1b[?25h\x1b[?1049l'
const HOME = '\x1b[H'
const END_OF_LINE = '\x1b[K'
const END_OF_SCREEN = '\x1b[J'

const KEYS = { quit: new Set(['q', 'Q', '\x03', '\x04']), up: ['\x1b[A', 'k'], down: ['\x1b[B', 'j'] }
const PAGE_UP = '\x1b[5~'
const PAGE_DOWN = new Set(['\x1b[6~', ' '])
const FIRST = new Set(['\x1b[H', '\x1b[1~', 'g'])
const LAST = new Set(['\x1b[F', '\x1b[4~', 'G'])

/** Whether a screen can be drawn at all: a terminal that understands more than lines. */
export function canDraw(
  output: { readonly isTTY?: boolean | undefined },
  environment: Readonly<Record<string, string | undefined>>,
): boolean {
  return output.isTTY === true && environment['TERM'] !== 'dumb' && (environment['TERM'] ?? '') !== ''
}

/** Runs until q, Ctrl-C or the signal. Rejects with the error of `refresh`, after the terminal is as it was. */
export async function runLive(view: LiveView, options: LiveOptions): Promise<void> {
  const { input, output, signal, periodMs } = options
  const ended = new AbortController()
  const end = (): void => ended.abort()
  const aborted = new Promise<void>((resolve) => ended.signal.addEventListener('abort', () => resolve()))
  const screen = new Screen(view, output)
  const onData = (chunk: Buffer | string): void => {
    for (const key of keysOf(String(chunk))) {
      if (KEYS.quit.has(key)) end()
      else screen.key(key)
    }
  }
  const onResize = (): void => screen.draw()
  if (signal.aborted) return
  signal.addEventListener('abort', end)
  output.on('resize', onResize)
  output.on('error', end)
  if (input.isTTY === true) {
    input.setRawMode?.(true)
    input.on('data', onData)
    input.resume()
  }
  output.write(ENTER)
  try {
    while (!ended.signal.aborted) {
      // A key ends the screen also while something that is read does not answer.
      await Promise.race([view.refresh(ended.signal), aborted])
      if (ended.signal.aborted) break
      screen.draw()
      await sleep(periodMs, undefined, { signal: ended.signal })
    }
  } catch (error) {
    if (!ended.signal.aborted) throw error
  } finally {
    output.write(LEAVE)
    if (input.isTTY === true) {
      input.off('data', onData)
      input.setRawMode?.(false)
      input.pause()
    }
    output.off('resize', onResize)
    output.off('error', end)
    signal.removeEventListener('abort', end)
  }
}

class Screen {
  readonly #view: LiveView
  readonly #output: LiveOutput
  /** The first line that is shown. */
  #top = 0
  #count = 0
  #isDrawn = false

  constructor(view: LiveView, output: LiveOutput) {
    this.#view = view
    this.#output = output
  }

  get #size(): ScreenSize {
    // A pseudo terminal that nobody has sized says 0.
    return { columns: this.#output.columns || 80, rows: this.#output.rows || 24 }
  }

  key(key: string): void {
    const page = Math.max(1, this.#size.rows - 1)
    if (KEYS.up.includes(key)) this.#scroll(-1)
    else if (KEYS.down.includes(key)) this.#scroll(1)
    else if (key === PAGE_UP) this.#scroll(-page)
    else if (PAGE_DOWN.has(key)) this.#scroll(page)
    else if (FIRST.has(key)) this.#scroll(-this.#count)
    else if (LAST.has(key)) this.#scroll(this.#count)
    else if (this.#isDrawn && this.#view.key?.(key) === true) this.draw()
  }

  #scroll(lines: number): void {
    this.#top += lines
    if (this.#isDrawn) this.draw()
  }

  draw(): void {
    const size = this.#size
    const lines = this.#view.lines(size)
    this.#count = lines.length
    this.#isDrawn = true
    const fits = lines.length <= size.rows
    // The last row says that there is more.
    const room = fits ? size.rows : Math.max(1, size.rows - 1)
    this.#top = Math.max(0, Math.min(this.#top, lines.length - room))
    const shown = lines.slice(this.#top, this.#top + room)
    if (!fits && size.rows > 1) {
      const last = Math.min(lines.length, this.#top + room)
      shown.push(`lines ${this.#top + 1}-${last} of ${lines.length}`.slice(0, size.columns))
    }
    // Without a line end after the last row, which would scroll the screen.
    this.#output.write(`${HOME}${shown.map((line) => line + END_OF_LINE).join('\r\n')}${END_OF_SCREEN}`)
  }
}

const ESC = '\x1b'
const SEQUENCE = /^(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])/

/** Keys in a piece of input: sequences that begin with ESC, and single characters. */
export function keysOf(text: string): readonly string[] {
  const [plain = '', ...parts] = text.split(ESC)
  return [
    ...plain,
    ...parts.flatMap((part) => {
      const sequence = SEQUENCE.exec(part)?.[0] ?? ''
      return [ESC + sequence, ...part.slice(sequence.length)]
    }),
  ]
}
