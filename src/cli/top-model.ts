/**
 * What somebody has chosen in `kube-ipvs top` and which key changes it; the lines are made from
 * this and the rates alone.
 */
import { GROUPINGS, type Grouping, SORT_KEYS, type SortKey } from '../traffic/rows.ts'
import type { Key } from './keys.ts'
import { type Extent, scrolled } from './scroll.ts'

export interface TopChoices {
  readonly sort: SortKey
  readonly by: Grouping
  /** Part of what a row shows; '': every row. */
  readonly text: string
  /** What is being typed as the new `text`; undefined: nothing. */
  readonly typed: string | undefined
  readonly help: boolean
  /** Rows above the first that is shown. */
  readonly scroll: number
}

export function topChoices(sort: SortKey, by: Grouping): TopChoices {
  return { sort, by, text: '', typed: undefined, help: false, scroll: 0 }
}

/** Longest text that can be typed. */
const MAX_TEXT = 100

const SORT_LETTERS: Readonly<Record<string, SortKey>> = Object.fromEntries(SORT_KEYS.map((key) => [key.charAt(0), key]))

/** For the help on the screen. */
export const TOP_KEYS: readonly (readonly [keys: string, what: string])[] = [
  ...SORT_KEYS.map((key) => [key.charAt(0), `sort by ${key}`] as const),
  ['g', 'group by Service or by real server'],
  ['/', 'show only rows that contain a text; Enter ends it, Escape removes it'],
  ['arrows', 'scroll; also Page Up, Page Down, Home, End'],
  ['h', 'this help; any key leaves it'],
  ['q', 'quit; also Ctrl-C'],
]

/** The choices after a key; `quit` ends the command. */
export function press(choices: TopChoices, key: Key, extent: Extent): TopChoices | 'quit' {
  if (key.name === 'interrupt') return 'quit'
  if (choices.help) return { ...choices, help: false }
  if (choices.typed !== undefined) return typing(choices, choices.typed, key)
  if (key.name === 'escape') return { ...choices, text: '', scroll: 0 }
  if (key.name === 'text') return pressLetter(choices, key.text)
  return { ...choices, scroll: scrolled(choices.scroll, key.name, extent) ?? choices.scroll }
}

function pressLetter(choices: TopChoices, letter: string): TopChoices | 'quit' {
  const sort = SORT_LETTERS[letter]
  if (sort !== undefined) return { ...choices, sort, scroll: 0 }
  switch (letter) {
    case 'q':
      return 'quit'
    case 'g':
      return { ...choices, by: GROUPINGS.find((one) => one !== choices.by) ?? choices.by, scroll: 0 }
    case '/':
      return { ...choices, typed: '' }
    case 'h':
    case '?':
      return { ...choices, help: true }
    default:
      return choices
  }
}

function typing(choices: TopChoices, typed: string, key: Key): TopChoices {
  switch (key.name) {
    case 'text':
      return { ...choices, typed: (typed + key.text).slice(0, MAX_TEXT) }
    case 'backspace':
      return { ...choices, typed: typed.slice(0, -1) }
    case 'enter':
      return { ...choices, text: typed, typed: undefined, scroll: 0 }
    case 'escape':
      return { ...choices, text: '', typed: undefined, scroll: 0 }
    default:
      return choices
  }
}
