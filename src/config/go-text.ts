/**
 * Numbers and addresses as Go parses them, and letters and lists as it quotes them. Recorded
 * messages of flags and configuration contain exactly these texts.
 */
import { quote } from '../values/quote.ts'

/** `%q` of a single letter: `'p'`. */
export function goQuoteLetter(letter: string): string {
  const inner = letter === "'" ? String.raw`\'` : quote(letter).slice(1, -1).replace('\\"', '"')
  return `'${inner}'`
}

/** `%q` of a list of texts: `["a" "b"]`. */
export function goQuoteList(texts: readonly string[]): string {
  return `[${texts.map(quote).join(' ')}]`
}

export type Parsed<T> = { readonly value: T } | { readonly error: string }

const syntax = (name: string, text: string) => ({ error: `strconv.${name}: parsing ${quote(text)}: invalid syntax` })
const range = (name: string, text: string) => ({
  error: `strconv.${name}: parsing ${quote(text)}: value out of range`,
})

/** strconv.ParseBool */
export function parseGoBool(text: string): Parsed<boolean> {
  if (/^(1|t|T|TRUE|true|True)$/.test(text)) return { value: true }
  if (/^(0|f|F|FALSE|false|False)$/.test(text)) return { value: false }
  return syntax('ParseBool', text)
}

/**
 * Digits of base 10, or of the base that one of Go's prefixes 0x, 0o, 0b and 0 states. Underscores
 * may separate digits.
 */
const INTEGER =
  /^[+-]?(?:0|[1-9]\d*|[1-9]\d*(?:_\d+)+|0[xX](?:_?[0-9a-fA-F])+|0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0(?:_?[0-7])+)$/

/** strconv.ParseInt with base 0 and 32 bits, as pflag reads an int32. */
export function parseGoInt32(text: string): Parsed<number> {
  if (!INTEGER.test(text)) return syntax('ParseInt', text)
  const digits = text.replace(/^[+-]/, '').replaceAll('_', '')
  const magnitude = BigInt(/^0[0-7]/.test(digits) ? `0o${digits.slice(1)}` : digits)
  const value = text.startsWith('-') ? -magnitude : magnitude
  return value >= -0x8000_0000n && value <= 0x7fff_ffffn ? { value: Number(value) } : range('ParseInt', text)
}

/** strconv.ParseUint with base 10 and 31 bits: log levels. */
export function parseGoLevel(text: string): Parsed<number> {
  if (!/^\d+$/.test(text)) return syntax('ParseUint', text)
  return BigInt(text) <= 0x7fff_ffffn ? { value: Number(text) } : range('ParseUint', text)
}

/** strconv.ParseFloat with 32 bits, decimal form only. */
export function parseGoFloat32(text: string): Parsed<number> {
  if (/^[+-]?(inf|infinity)$/i.test(text))
    return { value: text.startsWith('-') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY }
  if (/^nan$/i.test(text)) return { value: Number.NaN }
  const plain = text.replace(/(?<=\d)_(?=\d)/g, '')
  if (!/^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(plain)) return syntax('ParseFloat', text)
  const value = Math.fround(Number(plain))
  return Number.isFinite(value) ? { value: shortFloat32(value) } : range('ParseFloat', text)
}

/** The shortest decimal number that is the same float32, as Go prints one: 0.3 and not 0.30000001192092896. */
export function shortFloat32(value: number): number {
  for (let digits = 1; digits <= 9; digits++) {
    const short = Number(value.toPrecision(digits))
    if (Math.fround(short) === Math.fround(value)) return short
  }
  return value
}

/** Both parts of `host:port` as written, or Go's reason. */
export type HostPort = { readonly host: string; readonly port: string } | { readonly error: string }

/** net.SplitHostPort: neither part is checked, and an IPv6 address is in square brackets. */
export function splitHostPort(text: string): HostPort {
  const fail = (why: string) => ({ error: `address ${text}: ${why}` })
  const colon = text.lastIndexOf(':')
  if (colon < 0) return fail('missing port in address')
  let host: string
  // Brackets from these positions on are errors.
  let openFrom = 0
  let closeFrom = 0
  if (text.startsWith('[')) {
    const end = text.indexOf(']')
    if (end < 0) return fail("missing ']' in address")
    if (end + 1 === text.length) return fail('missing port in address')
    if (end + 1 !== colon) return fail(text[end + 1] === ':' ? 'too many colons in address' : 'missing port in address')
    host = text.slice(1, end)
    openFrom = 1
    closeFrom = end + 1
  } else {
    host = text.slice(0, colon)
    if (host.includes(':')) return fail('too many colons in address')
  }
  if (text.includes('[', openFrom)) return fail("unexpected '[' in address")
  if (text.includes(']', closeFrom)) return fail("unexpected ']' in address")
  return { host, port: text.slice(colon + 1) }
}
