/** The keys that somebody presses, from the bytes that a terminal sends. */
import { ownMember } from '../values/own-member.ts'

export type Key =
  | { readonly name: 'text'; readonly text: string }
  | {
      readonly name:
        | 'enter'
        | 'escape'
        | 'backspace'
        | 'up'
        | 'down'
        | 'page-up'
        | 'page-down'
        | 'home'
        | 'end'
        | 'interrupt'
        | 'redraw'
        | 'unknown'
    }

const ESC = '\x1b'
const SEQUENCE = /^[[O]([0-9;]*[ -/]*[@-~])/

type Named = Exclude<Key['name'], 'text'>

/** After ESC [ or ESC O (ECMA-48 and xterm). */
const SEQUENCES: Readonly<Record<string, Named>> = {
  A: 'up',
  B: 'down',
  H: 'home',
  F: 'end',
  '1~': 'home',
  '4~': 'end',
  '5~': 'page-up',
  '6~': 'page-down',
  '7~': 'home',
  '8~': 'end',
}

const CONTROLS: Readonly<Record<string, Named>> = {
  '\r': 'enter',
  '\n': 'enter',
  '\x7f': 'backspace',
  '\b': 'backspace',
  '\x03': 'interrupt',
  '\x04': 'interrupt',
  '\x0c': 'redraw',
}

/** One read of a terminal in raw mode; several keys may be in it. An escape that nothing follows is the key Escape. */
export function keysOf(text: string): readonly Key[] {
  const keys: Key[] = []
  for (let rest = text; rest !== ''; ) {
    const sequence = rest.startsWith(ESC) ? SEQUENCE.exec(rest.slice(1)) : null
    if (sequence !== null) {
      keys.push({ name: ownMember(SEQUENCES, sequence[1] ?? '') ?? 'unknown' })
      rest = rest.slice(1 + sequence[0].length)
      continue
    }
    const letter = String.fromCodePoint(rest.codePointAt(0) ?? 0)
    rest = rest.slice(letter.length)
    if (letter === ESC) keys.push({ name: 'escape' })
    else if (/^\p{C}$/u.test(letter)) keys.push({ name: ownMember(CONTROLS, letter) ?? 'unknown' })
    else keys.push({ name: 'text', text: letter })
  }
  return keys
}
