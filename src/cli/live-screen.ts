/**
 * What a command reads and draws again and again in a terminal, until a key ends it: `top`, and
 * text that scrolls, `status --watch`.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { KeyScreen, type KeyScreenOptions } from './key-screen.ts'
import type { Key } from './keys.ts'
import { type Extent, firstShown, scrolled } from './scroll.ts'
import { ownMember } from '../values/own-member.ts'

export type ScreenSize = KeyScreen['size']

export interface LiveView {
  /** Reads what is shown. Its error ends the screen. */
  refresh(signal: AbortSignal): Promise<void>
  /** The lines, none longer than the screen is wide and no more than it has; also before anything was read. */
  lines(size: ScreenSize): readonly string[]
  press(key: Key): 'quit' | undefined
  /** The pause before the next reading. @param tookMs how long the last one took */
  pauseMs(tookMs: number): number
}

/**
 * Runs until the view quits, a signal or the end of the terminal; resolves to the exit code.
 * Rejects with the error of `refresh`, after the terminal is as it was.
 */
export async function runLive(
  view: LiveView,
  terminal: Pick<KeyScreenOptions, 'input' | 'output' | 'process'>,
): Promise<number> {
  const ended = Promise.withResolvers<number>()
  const stop = new AbortController()
  const { signal } = stop
  const draw = (): void => screen.draw(view.lines(screen.size))
  const onKey = (key: Key): void => {
    if (view.press(key) === 'quit') ended.resolve(0)
    else draw()
  }
  const { input, output, process } = terminal
  const screen = new KeyScreen({ input, output, process, onKey, onResize: draw, onEnd: ended.resolve })

  const readAgainAndAgain = async (): Promise<void> => {
    while (!signal.aborted) {
      const startedMs = performance.now()
      await view.refresh(signal)
      const tookMs = performance.now() - startedMs
      draw()
      await sleep(view.pauseMs(tookMs), undefined, { signal })
    }
  }

  screen.open()
  try {
    draw()
    readAgainAndAgain().catch(ended.reject)
    // A key ends the screen also while something that is read does not answer.
    return await ended.promise
  } finally {
    stop.abort()
    screen.close()
  }
}

/** Letters that move as in less(1). */
const LETTERS: Readonly<Record<string, Key['name']>> = { k: 'up', j: 'down', ' ': 'page-down', g: 'home', G: 'end' }

export interface ScrolledText extends Pick<LiveView, 'refresh'> {
  /** The lines, none longer than this. Called once something was read. */
  lines(columns: number): readonly string[]
}

/** A text that scrolls and is read again each period. The last line says that there are more; q ends it. */
export function scrolledText(text: ScrolledText, periodMs: number): LiveView {
  let isRead = false
  let top = 0
  let extent: Extent = { rows: 0, height: 1 }
  return {
    refresh: async (signal) => {
      await text.refresh(signal)
      isRead = true
    },
    pauseMs: () => periodMs,
    press: (key) => {
      if (key.name === 'interrupt' || (key.name === 'text' && key.text.toLowerCase() === 'q')) return 'quit'
      top = scrolled(top, key.name === 'text' ? ownMember(LETTERS, key.text) : key.name, extent) ?? top
      return undefined
    },
    lines: ({ columns, lines: height }) => {
      // A size or a key may arrive before anything was read.
      if (!isRead) return []
      const all = text.lines(columns)
      const fits = all.length <= height
      extent = { rows: all.length, height: fits ? height : Math.max(1, height - 1) }
      top = firstShown(top, extent)
      const last = Math.min(all.length, top + extent.height)
      const more = fits || height === 1 ? [] : [`lines ${top + 1}-${last} of ${all.length}`.slice(0, columns)]
      return [...all.slice(top, last), ...more]
    },
  }
}
