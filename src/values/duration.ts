/**
 * Durations in Go's syntax (`1h30m`, `250ms`), as in every Kubernetes configuration file and flag.
 * The output is the form that Go prints (`1h0m0s`, `1.5s`, `0s`), because written files are
 * compared as text.
 */
import { ownMember } from './own-member.ts'

/** Length of each unit in nanoseconds. Go accepts both spellings of micro (U+00B5 and U+03BC). */
const UNIT_NANOSECONDS: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1_000n,
  µs: 1_000n,
  μs: 1_000n,
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
}

/** Quotes a text as Go's package time does, which escapes each byte that is not ASCII. */
function quoteBytes(text: string): string {
  let quoted = ''
  for (const byte of Buffer.from(text)) {
    const letter = String.fromCharCode(byte)
    if (byte < 0x20 || byte >= 0x80) quoted += `\\x${byte.toString(16).padStart(2, '0')}`
    else quoted += letter === '"' || letter === '\\' ? `\\${letter}` : letter
  }
  return `"${quoted}"`
}

/** Go keeps durations in an int64 of nanoseconds: about 292 years. */
const MAX_NANOSECONDS = 9_223_372_036_854_775_807n

export type ParsedDuration = { readonly milliseconds: number } | { readonly error: string }

/**
 * Milliseconds, possibly with a fraction, of a text such as `1h30m`, `-1.5s` or `0`. A number
 * without a unit is an error, except 0. The errors are Go's texts, which are recorded.
 */
export function parseDuration(text: string): ParsedDuration {
  const invalid = { error: `time: invalid duration ${quoteBytes(text)}` }
  const negative = text.startsWith('-')
  let rest = /^[-+]/.test(text) ? text.slice(1) : text
  if (rest === '0') return { milliseconds: 0 }
  if (rest === '') return invalid

  let total = 0n
  while (rest !== '') {
    const part = /^(\d*)(?:\.(\d*))?([^\d.]*)/.exec(rest)
    const [whole = '', , unit = ''] = part?.slice(1) ?? []
    const fraction = part?.[2] ?? ''
    if (part === null || (whole === '' && fraction === '')) return invalid
    if (unit === '') return { error: `time: missing unit in duration ${quoteBytes(text)}` }
    const scale = ownMember(UNIT_NANOSECONDS, unit)
    if (scale === undefined) {
      return { error: `time: unknown unit ${quoteBytes(unit)} in duration ${quoteBytes(text)}` }
    }
    total += BigInt(whole === '' ? '0' : whole) * scale
    if (fraction !== '') total += (BigInt(fraction) * scale) / 10n ** BigInt(fraction.length)
    if (total > MAX_NANOSECONDS) return invalid
    rest = rest.slice(part[0].length)
  }
  const milliseconds = Number(total / 1_000_000n) + Number(total % 1_000_000n) / 1e6
  return { milliseconds: negative && milliseconds !== 0 ? -milliseconds : milliseconds }
}

/** The text Go prints for a duration: `24h0m0s`, `1m30s`, `250ms`, `1.5s`, `0s`. */
export function formatDuration(milliseconds: number): string {
  // Whole milliseconds and their fraction are converted separately: together they have more digits than a double.
  const whole = Math.trunc(milliseconds)
  const nanoseconds = BigInt(whole) * 1_000_000n + BigInt(Math.round((milliseconds - whole) * 1e6))
  const sign = nanoseconds < 0n ? '-' : ''
  const size = nanoseconds < 0n ? -nanoseconds : nanoseconds
  if (size === 0n) return '0s'
  if (size < 1_000n) return `${sign}${size}ns`
  if (size < 1_000_000n) return `${sign}${decimal(size, 3)}µs`
  if (size < 1_000_000_000n) return `${sign}${decimal(size, 6)}ms`

  const minutes = size / 60_000_000_000n
  const seconds = `${decimal(size % 60_000_000_000n, 9)}s`
  if (minutes === 0n) return sign + seconds
  if (minutes < 60n) return `${sign}${minutes}m${seconds}`
  return `${sign}${minutes / 60n}h${minutes % 60n}m${seconds}`
}

/** `value` divided by 10 to the power of `digits`, without trailing zeros. */
function decimal(value: bigint, digits: number): string {
  const scale = 10n ** BigInt(digits)
  const fraction = (value % scale).toString().padStart(digits, '0').replace(/0+$/, '')
  return fraction === '' ? `${value / scale}` : `${value / scale}.${fraction}`
}
