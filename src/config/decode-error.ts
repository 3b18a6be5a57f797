/**
 * The errors of Go's decoders: a value of the wrong type (encoding/json), made from zod's issues, and a document of another kind
 * (apimachinery). The texts are recorded. Go decodes the keys in order, continues after most errors and reports the first; a
 * type that reads itself (a duration) stops the decoding, and only its error is reported.
 */
import { quote } from '../values/quote.ts'
import type * as z from 'zod'
import { parseDuration } from '../values/duration.ts'
import type { Path } from './document.ts'
import { parseQuantity } from './quantity.ts'
import { API_VERSION, type GoType, KIND } from './schema.ts'

/** A place in the document with its Go type. */
interface Place {
  readonly path: Path
  /** Go's name of the block around it. */
  readonly struct: string
  /** Names from the top, as Go joins them. */
  readonly field: string
  readonly type: GoType
}

export interface Decoded {
  /** The value at a path; undefined when there is none. */
  valueAt(path: Path): unknown
  /** A number as written in the JSON that Go decodes. */
  numberAt(path: Path): string
}

/** The only error that Go reports; undefined when no issue is about a type. */
export function decodeError(
  issues: readonly z.core.$ZodIssue[],
  document: GoType,
  decoded: Decoded,
): string | undefined {
  let first: Place | undefined
  for (const { code, path } of issues) {
    if (code === 'unrecognized_keys') continue
    const place = placeOf(path, document)
    if (first === undefined || precedes(place, first, decoded)) first = place
  }
  return first === undefined ? undefined : reasonOf(first, decoded)
}

/** Types that decode themselves are before all others; apart from that the order is that of the document. */
function precedes(a: Place, b: Place, decoded: Decoded): boolean {
  const alone = (place: Place): boolean => place.type.reads !== undefined
  return alone(a) === alone(b) ? compareInOrder(a.path, b.path, decoded) < 0 : alone(a)
}

/** The deepest place that the types know: zod may name one inside a value that should have been a scalar. */
function placeOf(path: Path, document: GoType): Place {
  let type: GoType = document
  let struct = ''
  const names: string[] = []
  for (const step of path) {
    const field: GoType | undefined = type.item ?? type.fields?.[String(step)]
    if (field === undefined) break
    if (type.item === undefined) {
      struct = type.go.slice(type.go.indexOf('.') + 1)
      names.push(field.goName ?? String(step))
    }
    type = field
  }
  return { path, struct, field: names.join('.'), type }
}

function reasonOf({ path, struct, field, type }: Place, decoded: Decoded): string {
  const value = decoded.valueAt(path)
  const found = goTypeOf(value)
  const mismatch = (shown: string) =>
    `json: cannot unmarshal ${shown} into Go struct field ${struct}.${field} of type ${type.go}`
  switch (type.reads) {
    case 'duration':
      return found === 'string' || found === 'null' ? reasonOfDuration(String(value ?? '')) : mismatch(found)
    case 'flushFrequency': {
      if (found === 'string') return reasonOfDuration(String(value))
      const raw = found === 'number' ? decoded.numberAt(path) : JSON.stringify(value)
      const shown = found === 'number' ? `number ${raw}` : found
      return `invalid duration ${quote(raw)}: json: cannot unmarshal ${shown} into Go value of type time.Duration`
    }
    case 'quantity': {
      const raw = found === 'string' ? String(value).trim() : JSON.stringify(value)
      const parsed = parseQuantity(raw)
      return 'error' in parsed ? parsed.error : mismatch(found)
    }
    default:
      return mismatch(found === 'number' && NUMERIC.has(type.go) ? `number ${decoded.numberAt(path)}` : found)
  }
}

const NUMERIC: ReadonlySet<string> = new Set(['int32', 'float32', 'v1.VerbosityLevel'])

function reasonOfDuration(text: string): string {
  const parsed = parseDuration(text)
  return 'error' in parsed ? parsed.error : `time: invalid duration ${quote(text)}`
}

/** Go's word for the JSON type of a value. */
function goTypeOf(value: unknown): string {
  if (value === null || value === undefined) return 'null'
  if (Array.isArray(value)) return 'array'
  return typeof value === 'boolean' ? 'bool' : typeof value
}

/** The order in which Go decodes two places: keys as in the document, list items by position. */
export function compareInOrder(a: Path, b: Path, decoded: Pick<Decoded, 'valueAt'>): number {
  for (let depth = 0; depth < Math.min(a.length, b.length); depth++) {
    const [left, right] = [a[depth], b[depth]]
    if (left === right) continue
    if (typeof left === 'number' && typeof right === 'number') return left - right
    const keys = Object.keys(decoded.valueAt(a.slice(0, depth)) ?? {})
    return keys.indexOf(String(left)) - keys.indexOf(String(right))
  }
  return a.length - b.length
}

const SCHEME = '"pkg/runtime/scheme.go:111"'
const STRUCT = String.raw`struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }`
/** kube-proxy prints the whole file in this error; a line of the log has to end. */
const MAX_SHOWN = 4_000

/** The version of the types inside kube-proxy. */
const INTERNAL = 'kubeproxy.config.k8s.io/__internal'

export function isInternal(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'apiVersion' in value && value.apiVersion === INTERNAL
}

/** Why a document is no KubeProxyConfiguration, as apimachinery says; undefined when it is one. */
export function kindError(value: unknown, text: string): { readonly error: string } | undefined {
  const fail = (error: string) => ({ error })
  const mismatch = (found: unknown, target: string) =>
    fail(`couldn't get version/kind; json parse error: json: cannot unmarshal ${goTypeOf(found)} into Go ${target}`)
  const shown = text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN)}…`
  const entries = typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.entries(value) : []
  if (value !== null && value !== undefined && goTypeOf(value) !== 'object')
    return mismatch(value, `value of type ${STRUCT}`)
  const words: Record<'apiVersion' | 'kind', string> = { apiVersion: '', kind: '' }
  // encoding/json ignores upper and lower case here, and the last one counts.
  for (const [key, found] of entries)
    for (const name of ['apiVersion', 'kind'] as const) {
      if (key.toLowerCase() !== name.toLowerCase() || found === null) continue
      if (typeof found !== 'string') return mismatch(found, `struct field .${name} of type string`)
      words[name] = found
    }
  const { apiVersion, kind } = words
  const slashes = apiVersion.split('/').length - 1
  if (slashes > 1) return fail(`unexpected GroupVersion string: ${apiVersion}`)
  if (kind === '') return fail(`Object 'Kind' is missing in '${shown}'`)
  if (apiVersion === '' || apiVersion.endsWith('/')) return fail(`Object 'apiVersion' is missing in '${shown}'`)
  if ((apiVersion === API_VERSION || apiVersion === INTERNAL) && kind === KIND) return undefined
  return fail(
    `no kind ${quote(kind)} is registered for version ${quote(apiVersion.replace(/^\//, ''))} in scheme ${SCHEME}`,
  )
}
