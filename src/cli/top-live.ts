/** `kube-ipvs top` in a terminal: reads in the background, and draws after each read and each key. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Rates } from '../traffic/sample.ts'
import { KeyScreen, type KeyScreenOptions } from './key-screen.ts'
import type { Key } from './keys.ts'
import { styleFor } from './terminal.ts'
import type { TopRequest } from './top-flags.ts'
import { type Extent, press, topChoices } from './top-model.ts'
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
/** A pause is at least this many times as long as the read before it, so that reading takes a third of a core at most. */
const REST_FACTOR = 2

/** Resolves to the exit code when a key, a signal or the end of the terminal ends it. Rejects when the kernel cannot be read. */
export async function liveTop(options: LiveTopOptions): Promise<number> {
  const { source, request, input, output, process } = options
  const style = styleFor(output, options.environment)
  const ended = Promise.withResolvers<number>()
  const stop = new AbortController()
  let choices = topChoices(request.sort, request.by)
  let rates: Rates | undefined
  let extent: Extent = { rows: 0, height: 1 }

  const draw = (): void => {
    const { sort, by, text } = choices
    const table = rates && source.table(rates, by, sort, text)
    const screen = screenText(table, choices, { ...keyScreen.size, notes: source.unnamed }, style)
    extent = screen.extent
    keyScreen.draw(screen.lines)
  }
  const onKey = (key: Key): void => {
    const next = press(choices, key, extent)
    if (next === 'quit') return ended.resolve(0)
    choices = next
    draw()
  }
  const keyScreen = new KeyScreen({ input, output, process, onKey, onResize: draw, onEnd: ended.resolve })

  const readAgainAndAgain = async (): Promise<void> => {
    const { signal } = stop
    for (let count = 0; !signal.aborted; count++) {
      const startedMs = performance.now()
      rates = await source.read({ sort: choices.sort, withRealServers: true, budgetMs: BUDGET_MS, signal })
      const tookMs = performance.now() - startedMs
      draw()
      const pauseMs = count === 0 ? Math.min(FIRST_MS, request.intervalMs) : request.intervalMs - tookMs
      await sleep(Math.max(pauseMs, tookMs * REST_FACTOR), undefined, { signal })
    }
  }

  keyScreen.open()
  try {
    draw()
    readAgainAndAgain().catch(ended.reject)
    return await ended.promise
  } finally {
    stop.abort()
    keyScreen.close()
  }
}
