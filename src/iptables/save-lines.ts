/**
 * The lines of what iptables-save and `-S` print. A word in quotes, such as a comment, may hold
 * line breaks, and the line of its rule goes on behind them: without that any comment could end a
 * table, or add a chain to it.
 */

/** A value that begins with a quote; names of chains, which may hold quotes, follow `-A`, `-j` and `-g`. */
const VALUE = / --[\w-]+ "/g
/** A word in quotes as the programs print it. */
const WORD = /"(?:[^"\\]|\\[^])*"(?=[ \n]|$)/y
/** The longest one is a comment of 255 characters that are all escaped. */
const MAX_WORD = 1024

/** One after the other, without a copy of the text. */
export function* saveLines(text: string): Generator<string, void> {
  for (let from = 0; from < text.length; ) {
    const end = endOfLine(text, from)
    yield text.slice(from, end)
    from = end + 1
  }
}

/** Where the line that begins at `from` ends: at its line feed, or at the end of the text. */
function endOfLine(text: string, from: number): number {
  let end = lineFeed(text, from)
  // Only rules have words in quotes: `-A CHAIN …`, or with counters `[1:60] -A CHAIN …`.
  const first = text.charAt(from)
  if (first !== '-' && first !== '[') return end
  for (let at = from; ; ) {
    const open = openingQuote(text.slice(at, end))
    if (open < 0) return end
    const close = closingQuote(text, at + open)
    at = close ?? at + open + 1
    if (at > end) end = lineFeed(text, at)
  }
}

function lineFeed(text: string, from: number): number {
  const at = text.indexOf('\n', from)
  return at < 0 ? text.length : at
}

function openingQuote(line: string): number {
  VALUE.lastIndex = 0
  return VALUE.test(line) ? VALUE.lastIndex - 1 : -1
}

/** Behind the closing quote; undefined: what begins here is no word in quotes. */
function closingQuote(text: string, open: number): number | undefined {
  const rest = text.slice(open, open + MAX_WORD + 1)
  WORD.lastIndex = 0
  return WORD.test(rest) && WORD.lastIndex <= MAX_WORD ? open + WORD.lastIndex : undefined
}
