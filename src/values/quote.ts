/**
 * Texts of others in lines of ours: quoted as Go's strconv.Quote does, so that no name can end a line, start another
 * one, or give orders to a terminal.
 * What could break: whatever a terminal or a log collector takes for more than a letter must come out as an escape.
 */

const SHORT: Readonly<Record<string, string>> = {
  '\x07': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
  '"': '\\"',
  '\\': '\\\\',
}

/** Letters, marks, numbers, punctuation, symbols and the plain space: Go's unicode.IsPrint. */
const UNPRINTABLE = /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu
const UNPRINTABLE_OR_SYNTAX = /["\\]|[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu

/** Nearly every text: the expressions above are large and take a millisecond to be made. */
const PLAIN = /^[ !#-[\]-~]*$/

/** `"a\nb"`: Go's %q of a text. */
export function quote(text: string): string {
  if (PLAIN.test(text)) return `"${text}"`
  return `"${text.replace(UNPRINTABLE_OR_SYNTAX, escapeLetter)}"`
}

/** The text without quotes around it and with only what cannot be printed escaped. */
export function printable(text: string): string {
  if (PLAIN.test(text)) return text
  return text.replace(UNPRINTABLE, escapeLetter)
}

/** JSON that a terminal can be shown: what JSON.stringify leaves as it is and terminals obey is escaped as well. */
export function printableJson(value: unknown): string | undefined {
  const text: string | undefined = JSON.stringify(value)
  return text?.replace(/[\x7f-\x9f\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb]/g, escapeUnit)
}

function escapeLetter(letter: string): string {
  const short = SHORT[letter]
  if (short !== undefined) return short
  const code = letter.codePointAt(0) ?? 0
  // Half a surrogate pair is no letter: Go would have read U+FFFD there.
  if (code >= 0xd800 && code <= 0xdfff) return '\ufffd'
  if (code < 0x80) return `\\x${code.toString(16).padStart(2, '0')}`
  return code > 0xffff ? `\\U${code.toString(16).padStart(8, '0')}` : escapeUnit(letter)
}

function escapeUnit(letter: string): string {
  return `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`
}
