/**
 * Foreign text in our lines, quoted as Go's strconv.Quote does it, so that no name can end a line,
 * start a new one, or control a terminal. Everything that a terminal or a log collector interprets
 * must be escaped.
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

/** Matches nearly every text. The expressions above are large and take a millisecond to compile. */
const PLAIN = /^[ !#-[\]-~]*$/
/** The printable ASCII. */
const ASCII = /^[ -~]*$/

/** `"a\nb"`: Go's %q of a text. */
export function quote(text: string): string {
  if (PLAIN.test(text)) return `"${text}"`
  return `"${text.replace(UNPRINTABLE_OR_SYNTAX, escapeLetter)}"`
}

/** `'a b'`: a text as one word of a shell, whatever is in it. */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

/** The text without quotes around it; only unprintable characters are escaped. */
export function printable(text: string): string {
  if (PLAIN.test(text)) return text
  return text.replace(UNPRINTABLE, escapeLetter)
}

/**
 * JSON that is safe for a terminal: everything that JSON.stringify leaves unchanged although it is
 * not printable is escaped, too.
 */
export function printableJson(value: unknown): string | undefined {
  const text: string | undefined = JSON.stringify(value)
  if (text === undefined || ASCII.test(text)) return text
  return text.replace(UNPRINTABLE, (letter) =>
    Array.from({ length: letter.length }, (_, at) => escapeUnit(letter.charAt(at))).join(''),
  )
}

function escapeLetter(letter: string): string {
  const short = SHORT[letter]
  if (short !== undefined) return short
  const code = letter.codePointAt(0) ?? 0
  // Half a surrogate pair is no character: Go reads U+FFFD there.
  if (code >= 0xd800 && code <= 0xdfff) return '\ufffd'
  if (code < 0x80) return `\\x${code.toString(16).padStart(2, '0')}`
  return code > 0xffff ? `\\U${code.toString(16).padStart(8, '0')}` : escapeUnit(letter)
}

function escapeUnit(letter: string): string {
  return `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`
}
