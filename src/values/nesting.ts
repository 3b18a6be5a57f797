/**
 * Where a YAML text nests most. Readers of YAML call themselves for each level, and run out of
 * stack at some thousand of them, without a place. A long list in flow style in which each comma is
 * a colon nests as deep as it is long.
 */

export interface Nesting {
  /** Most brackets that are open at one place. */
  readonly depth: number
  /** The line with the most signs that begin a level, from 1. */
  readonly line: number
}

/** A bracket; a colon, dash or question mark before a space; a quoted text; a comment; a line break. */
const SIGNS = /[[\]{}]|[:?-](?=\s)|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|(?<=^|\s)#[^\n]*|\n/gm

export function nestingOf(text: string): Nesting {
  let [depth, deepest, line, signs, most, found] = [0, 0, 1, 0, 0, 1]
  for (const [sign] of text.matchAll(SIGNS))
    if (sign === '\n') {
      line++
      signs = 0
    } else if (sign === ']' || sign === '}') depth = Math.max(0, depth - 1)
    else if (sign.length === 1) {
      if (sign === '[' || sign === '{') deepest = Math.max(deepest, ++depth)
      if (++signs > most) [most, found] = [signs, line]
    }
  return { depth: deepest, line: found }
}

/** Whether a reader failed because it ran out of stack; libraries keep only the message. */
export function isOutOfStack(reason: unknown): boolean {
  if (reason instanceof RangeError) return true
  return typeof reason === 'string' && reason.includes('call stack size exceeded')
}
