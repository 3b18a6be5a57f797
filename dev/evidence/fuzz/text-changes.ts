/** Changes of texts by words and lines: removed, doubled, moved, replaced by words of the format, nested, made very long. */
import type { Material } from './byte-changes.ts'
import { NAMES } from './json-changes.ts'
import type { Random } from './random.ts'

/** Words, numbers, single signs, spaces. */
const TOKENS = /[A-Za-z_][\w-]*|\d+|\s+|[^\w\s]/gu
const STRANGE: readonly string[] = [
  '\0',
  '\r',
  '\r\n',
  '\t',
  '\v',
  '\u0085',
  '\u00a0',
  '\u2028',
  '\u202e',
  '\ufeff',
  '\ufffd',
  '😀',
  'é',
  '\u001b[31m',
  '\\',
  '"',
  "'",
  '`',
]
const NUMBERS: readonly string[] = [
  '0',
  '-1',
  '1',
  '00',
  '255',
  '256',
  '65535',
  '65536',
  '4294967295',
  '4294967296',
  '9007199254740993',
  '1e400',
  '0x10',
  '0o17',
  '1_000',
  '.5',
  '1.',
  'NaN',
  'Infinity',
  '-0',
  '99999999999999999999999999',
]
const BRACKETS: readonly (readonly [string, string])[] = [
  ['[', ']'],
  ['{', '}'],
  ['(', ')'],
  ['"', '"'],
  ["'", "'"],
  ['{a: ', '}'],
  ['- ', ''],
  ['? ', ''],
  ['!!map ', ''],
  ['&a ', ''],
]
const MAX_REPEATS = 4000

function newPart(random: Random, words: readonly Uint8Array[]): string {
  switch (random.below(6)) {
    case 0:
      return random.pick(STRANGE)
    case 1:
      return random.pick(NUMBERS)
    case 2:
      return random.pick(NAMES)
    default:
      return words.length === 0 ? random.pick(NAMES) : Buffer.from(random.pick(words)).toString()
  }
}

/** Changes tokens in place, or lines where `tokens` are lines. */
function changeParts(
  random: Random,
  parts: string[],
  { words, maxBytes: maxLength }: Material,
  other: readonly string[],
): void {
  const at = random.below(parts.length)
  const some = 1 + random.below(random.isOneIn(4) ? parts.length - at : Math.min(4, parts.length - at))
  switch (random.below(9)) {
    case 0:
      parts.splice(at, some)
      return
    case 1:
      parts.splice(at, 0, ...parts.slice(at, at + some))
      return
    case 2: {
      const [first = '', target] = [parts[at], random.below(parts.length)]
      parts[at] = parts[target] ?? ''
      parts[target] = first
      return
    }
    case 3:
      parts[at] = newPart(random, words)
      return
    case 4:
      parts.splice(at, 0, newPart(random, words))
      return
    case 5: {
      const [open, close] = random.pick(BRACKETS)
      const depth = random.isOneIn(6) ? random.length(MAX_REPEATS) : 1
      parts.splice(at, 0, open.repeat(depth))
      if (!random.isOneIn(4)) parts.splice(at + 1 + some, 0, close.repeat(depth))
      return
    }
    case 6: {
      const times = random.isOneIn(4) ? random.length(MAX_REPEATS) : 1 + random.below(8)
      parts.splice(at, 0, repeated(parts.slice(at, at + some).join(''), times, maxLength))
      return
    }
    case 7: {
      const from = random.below(other.length)
      parts.splice(at, random.isOneIn(2) ? some : 0, ...other.slice(from, from + 1 + random.below(8)))
      return
    }
    default:
      parts.splice(
        at,
        some,
        repeated(newPart(random, words), random.isOneIn(4) ? random.length(MAX_REPEATS) : 1, maxLength),
      )
  }
}

/** A part again and again, and not much longer than any input may be. */
function repeated(part: string, times: number, maxLength: number): string {
  return part.repeat(Math.min(times, 1 + Math.floor(maxLength / Math.max(1, part.length))))
}

function partsOf(text: string, isLines: boolean): string[] {
  return isLines ? text.split(/(?<=\n)/) : (text.match(TOKENS) ?? [])
}

/** One change or a few of the input as text. */
export function changeText(random: Random, input: Uint8Array, material: Material): Uint8Array {
  const { words, pool, maxBytes } = material
  const isLines = random.isOneIn(3)
  const parts = partsOf(Buffer.from(input).toString(), isLines)
  const other = random.isOneIn(3) ? partsOf(Buffer.from(random.pick(pool)).toString(), isLines) : parts.slice()
  for (let count = random.isOneIn(2) ? 1 + random.below(5) : 1; count > 0; count--) {
    if (parts.length === 0) parts.push(newPart(random, words))
    changeParts(random, parts, material, other.length === 0 ? [''] : other)
    if (parts.reduce((sum, part) => sum + part.length, 0) > maxBytes) break
  }
  const bytes = Buffer.from(parts.join(''))
  return new Uint8Array(bytes.subarray(0, maxBytes))
}
