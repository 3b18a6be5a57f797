/** Lines that are read and drawn again and again in a terminal, and that scroll: `status --watch`. */
import { setTimeout as sleep } from 'node:timers/promises'
import { KeyScreen, type KeyScreenOptions } from './key-screen.ts'
import type { Key } from './keys.ts'

export interface LiveView {
  /** Reads what is shown. Its error ends the screen. */
  refresh(signal: AbortSignal): Promise<void>
  /** The lines, none longer than the screen is wide. */
  lines(columns: number): readonly string[]
}

export interface LiveOptions extends Pick<KeyScreenOptions, 'input' | 'output' | 'process'> {
  /** The pause between two readings. */
  readonly periodMs: number
}

/**
 * Runs until q, Ctrl-C, a signal or the end of the terminal; resolves to the exit code. Rejects with the error of `refresh`, after the
 * terminal is as it was.
 */
export async function runLive(view: LiveView, { periodMs, ...terminal }: LiveOptions): Promise<number> {
  const ended = Promise.withResolvers<number>()
  const stop = new AbortController()
  const { signal } = stop
  let isRead = false
  const scrolled = new ScrolledLines()
  const draw = (): void => {
    const { columns, lines } = screen.size
    // A size or a key may arrive before anything was read.
    if (isRead) screen.draw(scrolled.shown(view.lines(columns), { columns, rows: lines }))
  }
  const onKey = (key: Key): void => {
    if (isEnd(key)) return ended.resolve(0)
    scrolled.press(key, screen.size.lines)
    draw()
  }
  const screen = new KeyScreen({ ...terminal, onKey, onResize: draw, onEnd: ended.resolve })

  const readAgainAndAgain = async (): Promise<void> => {
    while (!signal.aborted) {
      await view.refresh(signal)
      isRead = true
      draw()
      await sleep(periodMs, undefined, { signal })
    }
  }

  screen.open()
  try {
    readAgainAndAgain().catch(ended.reject)
    // A key ends the screen also while something that is read does not answer.
    return await ended.promise
  } finally {
    stop.abort()
    screen.close()
  }
}

function isEnd(key: Key): boolean {
  return key.name === 'interrupt' || (key.name === 'text' && key.text.toLowerCase() === 'q')
}

/** Letters that move as in less(1). */
const LETTERS: Readonly<Record<string, Key['name']>> = { k: 'up', j: 'down', ' ': 'page-down', g: 'home', G: 'end' }

/** Which of the lines the screen shows. */
class ScrolledLines {
  /** The first line that is shown. */
  #top = 0
  #count = 0

  press(key: Key, rows: number): void {
    this.#top += this.#distance(key.name === 'text' ? LETTERS[key.text] : key.name, Math.max(1, rows - 1))
  }

  #distance(name: Key['name'] | undefined, page: number): number {
    switch (name) {
      case 'up':
        return -1
      case 'down':
        return 1
      case 'page-up':
        return -page
      case 'page-down':
        return page
      case 'home':
        return -this.#count
      case 'end':
        return this.#count
      default:
        return 0
    }
  }

  /** As many lines as the screen has rows. The last one says that there are more. */
  shown(lines: readonly string[], { columns, rows }: { readonly columns: number; readonly rows: number }): string[] {
    this.#count = lines.length
    const fits = lines.length <= rows
    const room = fits ? rows : Math.max(1, rows - 1)
    this.#top = Math.max(0, Math.min(this.#top, lines.length - room))
    const shown = lines.slice(this.#top, this.#top + room)
    if (!fits && rows > 1) {
      const last = Math.min(lines.length, this.#top + room)
      shown.push(`lines ${this.#top + 1}-${last} of ${lines.length}`.slice(0, columns))
    }
    return shown
  }
}
