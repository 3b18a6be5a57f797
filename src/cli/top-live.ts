/** `kube-ipvs top` in a terminal: reads in the background, and draws after each read and each key. */
import type { Rates } from '../traffic/sample.ts'
import type { KeyScreenOptions } from './key-screen.ts'
import { runLive } from './live-screen.ts'
import type { Extent } from './scroll.ts'
import { styleFor } from '../start/style.ts'
import type { TopRequest } from './top-flags.ts'
import { press, topChoices } from './top-model.ts'
import { screenText, type TopTable } from './top-text.ts'

/** Rates, and tables made of them: the part of TopSource that is needed. */
export interface LiveSource {
  readonly unnamed: readonly string[]
  read(options: {
    readonly sort: TopRequest['sort']
    readonly withRealServers: boolean
    readonly budgetMs: number
    readonly signal: AbortSignal
  }): Promise<Rates | undefined>
  table(rates: Rates, by: TopRequest['by'], sort: TopRequest['sort'], text: string): TopTable
}

export interface LiveTopOptions extends Pick<KeyScreenOptions, 'input' | 'process'> {
  readonly source: LiveSource
  readonly request: TopRequest
  readonly output: KeyScreenOptions['output'] & { readonly isTTY?: boolean | undefined }
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Longest time for the real servers of one read. */
const BUDGET_MS = 200
/** The first rates appear after this time, whatever the interval. */
const FIRST_MS = 300
/**
 * A pause is at least this many times as long as the read before it, so that reading takes a third
 * of a core at most.
 */
const REST_FACTOR = 2

/**
 * Resolves to the exit code when a key, a signal or the end of the terminal ends it. Rejects when
 * the kernel cannot be read.
 */
export function liveTop({ source, request, environment, ...terminal }: LiveTopOptions): Promise<number> {
  const style = styleFor(terminal.output, environment)
  let choices = topChoices(request.sort, request.by)
  let rates: Rates | undefined
  let extent: Extent = { rows: 0, height: 1 }
  return runLive(
    {
      refresh: async (signal) => {
        rates = await source.read({ sort: choices.sort, withRealServers: true, budgetMs: BUDGET_MS, signal })
      },
      // The first read has no rates.
      pauseMs: (tookMs) => {
        const pauseMs = rates === undefined ? Math.min(FIRST_MS, request.intervalMs) : request.intervalMs - tookMs
        return Math.max(pauseMs, tookMs * REST_FACTOR)
      },
      lines: (size) => {
        const { sort, by, text } = choices
        const table = rates && source.table(rates, by, sort, text)
        const screen = screenText(table, choices, { ...size, notes: source.unnamed }, style)
        extent = screen.extent
        return screen.lines
      },
      press: (key) => {
        const next = press(choices, key, extent)
        if (next === 'quit') return next
        choices = next
        return undefined
      },
    },
    terminal,
  )
}
