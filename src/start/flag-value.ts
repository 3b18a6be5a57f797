/**
 * Values of flags: read as pflag reads them, with Go's errors, which are recorded verbatim, and
 * shown as /flagz shows them.
 */
import { quote } from '../values/quote.ts'
import { formatDuration, parseDuration } from '../values/duration.ts'
import {
  type Parsed,
  parseGoBool,
  parseGoFloat32,
  parseGoInt32,
  parseGoLevel,
  splitHostPort,
} from '../config/go-text.ts'
import { parseQuantity } from '../config/quantity.ts'
import { isDuration } from '../config/values.ts'
import type { VmoduleItem } from '../config/field.ts'
import { parseAddressSloppy } from '../values/address.ts'
import type { Flag, FlagKinds } from './flag.ts'
import { FLAGS, type FlagValues } from './flags.ts'
import { KUBE_PROXY_RELEASE } from '../values/well-known.ts'

type Parsers = {
  readonly [Kind in keyof FlagKinds]: (text: string, before: FlagKinds[Kind] | undefined) => Parsed<FlagKinds[Kind]>
}

const parseDurationFlag = (text: string): Parsed<number> => {
  const parsed = parseDuration(text)
  return 'error' in parsed ? parsed : { value: parsed.milliseconds }
}

const parseTexts = (text: string, before: readonly string[] = []): Parsed<readonly string[]> => {
  const parsed = parseCommaList(text)
  return 'error' in parsed ? parsed : { value: [...before, ...parsed.value] }
}

/** The parser of each kind. `before` is the value of an earlier occurrence of the same flag. */
export const FLAG_PARSERS: Parsers = {
  text: (value) => ({ value }),
  optionalText: (value) => ({ value }),
  address: (value) =>
    value === '' || parseAddressSloppy(value) !== undefined
      ? { value }
      : { error: `${quote(value)} is not a valid IP address` },
  addressPort: parseAddressPort,
  boolean: parseGoBool,
  int32: parseGoInt32,
  nonZeroInt32: parseGoInt32,
  float32: parseGoFloat32,
  level: parseGoLevel,
  duration: parseDurationFlag,
  optionalDuration: parseDurationFlag,
  flushFrequency: parseDurationFlag,
  texts: parseTexts,
  optionalTexts: parseTexts,
  gates: parseGates,
  vmodule: parseVmodule,
  quantity: parseQuantity,
  version: parseVersion,
  output: (value) => (value === 'text' || value === 'json' ? { value } : { error: 'must be text or json' }),
}

function parseGates(
  text: string,
  before: Readonly<Record<string, boolean>> | undefined,
): Parsed<Readonly<Record<string, boolean>>> {
  const gates = new Map(Object.entries(before ?? {}))
  for (const pair of text.split(',')) {
    if (pair === '') continue
    const equals = pair.indexOf('=')
    if (equals < 0) return { error: 'malformed pair, expect string=bool' }
    const name = pair.slice(0, equals).trim()
    const word = pair.slice(equals + 1).trim()
    const parsed = parseGoBool(word)
    if ('error' in parsed) return { error: `invalid value of ${name}: ${word}, err: ${parsed.error}` }
    gates.set(name, parsed.value)
  }
  return { value: Object.fromEntries(gates) }
}

function parseAddressPort(value: string): Parsed<string> {
  if (value === '' || parseAddressSloppy(value) !== undefined) return { value }
  const split = splitHostPort(value)
  if ('error' in split) return { error: `${quote(value)} is not in a valid format (ip or ip:port): ${split.error}` }
  const { host, port } = split
  if (parseAddressSloppy(host) === undefined) return { error: `${quote(host)} is not a valid IP address` }
  if (!/^\+?\d+$/.test(port) || Number(port) > 65_535) return { error: `${quote(port)} is not a valid number` }
  return { value }
}

function parseVmodule(text: string, before: readonly VmoduleItem[] = []): Parsed<readonly VmoduleItem[]> {
  const items = [...before]
  for (const item of text.split(',')) {
    if (item === '') continue
    const [filePattern = '', level = '', ...more] = item.split('=')
    if (filePattern === '' || level === '' || more.length > 0)
      return { error: `${quote(item)} does not have the pattern=N format` }
    const verbosity = parseGoLevel(level)
    if ('error' in verbosity) return { error: `parsing verbosity in ${quote(item)}: ${verbosity.error}` }
    items.push({ filePattern, verbosity: verbosity.value })
  }
  return { value: items }
}

/** `true`, `false`, `raw`, or the release of kube-proxy that this program replaces, with any suffix. */
function parseVersion(text: string): Parsed<string> {
  if (text === 'raw') return { value: text }
  if (text.startsWith('v')) {
    const [numbers = ''] = text.split(/[-+]/)
    if (!/^v\d+\.\d+\.\d+$/.test(numbers)) return { error: `could not parse ${quote(text)} as version` }
    if (numbers === KUBE_PROXY_RELEASE.version) return { value: text }
    return {
      error: `version ${quote(text)} must match major/minor/patch of default version ${quote(KUBE_PROXY_RELEASE.version)}`,
    }
  }
  const parsed = parseGoBool(text)
  return 'error' in parsed ? parsed : { value: String(parsed.value) }
}

/**
 * The items of a comma list: one record of CSV, as pflag reads it with Go's encoding/csv. '' is a
 * list without items, and only the first line counts. Columns in the errors count bytes from 1.
 */
function parseCommaList(text: string): Parsed<readonly string[]> {
  if (text === '') return { value: [] }
  const line = text.replace(/^(\r?\n)+/, '')
  if (line === '') return { error: 'EOF' }
  const items: string[] = []
  let at = 0
  for (;;) {
    if (line[at] === '"') {
      const quoted = /^(?:[^"]|"")*/.exec(line.slice(at + 1))?.[0] ?? ''
      const end = at + 1 + quoted.length
      if (line[end] !== '"') return listError(line, line.length, 'extraneous or missing " in quoted-field')
      items.push(quoted.replaceAll('""', '"'))
      at = end + 1
      if (at >= line.length || /^\r?\n/.test(line.slice(at))) return { value: items }
      if (line[at] !== ',') return listError(line, end, 'extraneous or missing " in quoted-field')
    } else {
      const item = /^[^,\n]*/.exec(line.slice(at))?.[0] ?? ''
      const quote = item.indexOf('"')
      if (quote >= 0) return listError(line, at + quote, 'bare " in non-quoted-field')
      at += item.length
      const last = at >= line.length || line[at] === '\n'
      items.push(last ? item.replace(/\r$/, '') : item)
      if (last) return { value: items }
    }
    at++
  }
}

function listError(line: string, index: number, reason: string): { readonly error: string } {
  const column = Buffer.byteLength(line.slice(0, index)) + 1
  return { error: `parse error on line 1, column ${column}: ${reason}` }
}

/**
 * The flags of the daemon with their values, given or by default: text by name, in the order of
 * names. This is what the command line says, not what is in force; with --config the two differ.
 */
export function flagTexts(values: FlagValues): Readonly<Record<string, string>> {
  const given = new Map<string, unknown>(Object.entries(values))
  const texts = Object.entries(FLAGS).flatMap(([key, flag]) => {
    if (!flag.commands.includes('run')) return []
    const value = given.get(key)
    if (value === undefined && flag.isGone === true) return []
    return [[flag.name, value === undefined ? defaultOf(flag) : textOf(flag, value)] as const]
  })
  return Object.fromEntries(texts.toSorted(([left], [right]) => (left < right ? -1 : 1)))
}

function defaultOf({ kind, default: fallback }: Flag): string {
  return fallback ?? (kind === 'boolean' ? 'false' : '')
}

function textOf({ kind }: Flag, value: unknown): string {
  if (typeof value === 'number' && kind !== 'version' && kind !== 'output' && isDuration(kind))
    return formatDuration(value)
  if (Array.isArray(value))
    return value.every((item) => typeof item === 'string') ? `[${value.join(',')}]` : pairs(value)
  return typeof value === 'object' && value !== null ? pairs(Object.entries(value)) : String(value)
}

/** `a=1,b=2` of pairs and of objects with two fields. */
function pairs(items: readonly unknown[]): string {
  return items.map((item) => (Array.isArray(item) ? item : Object.values(Object(item))).join('=')).join(',')
}
