/**
 * Parses a configuration text into plain values with their lines, as Go's sigs.k8s.io/yaml does:
 * YAML 1.1 scalars, keys in alphabetical order; a text that begins with `{` is parsed as JSON only.
 * If a key is repeated, the last one counts. Only the first document of a file is read.
 */
import { printable, quote } from '../values/quote.ts'
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseAllDocuments,
  type ScalarTag,
  visit,
} from 'yaml'
import { errorText } from '../values/errors.ts'
import { isOutOfStack, nestingOf } from '../values/nesting.ts'

/** The place of a value: keys and list positions from the top. */
export type Path = readonly PropertyKey[]

/** A repeated key of a block, with Go's error. */
export interface Duplicate {
  readonly path: Path
  readonly text: string
}

export interface ConfigurationDocument {
  /** Plain values; keys are in the order in which Go decodes them. */
  readonly value: unknown
  readonly duplicates: readonly Duplicate[]
  /** The values of further documents of the file that are not empty; undefined where one cannot be read. */
  readonly others: readonly unknown[]
  readonly isJson: boolean
  /** Line (from 1) of a key or list item; undefined for an absent field. */
  lineOf(path: Path): number | undefined
}

/**
 * A usual configuration has about 2,000 characters. Parsing needs memory of about a hundred times
 * the text's length.
 */
export const MAX_CHARACTERS = 256 * 1024

export const TOO_LONG = `the file has more than ${MAX_CHARACTERS} bytes, and no configuration is that long`

/** Values that go-yaml leaves as text: times, and numbers to base 60 such as `1:30`. */
const EXTRA_TAGS: ReadonlySet<string> = new Set(['TIME', 'tag:yaml.org,2002:timestamp'])

/** `0o17` is YAML 1.2, but go-yaml reads it as a number too. */
const OCTAL: ScalarTag = {
  tag: 'tag:yaml.org,2002:int',
  default: true,
  format: 'OCT',
  test: /^[-+]?0o[0-7][0-7_]*$/,
  resolve: (text) => Number(text.replace(/[-+_]/g, '')) * (text.startsWith('-') ? -1 : 1),
}

const CONTROL = /[^\t\n\r\x20-\x7e\x85\xa0-\ufffd\u{10000}-\u{10ffff}]/u

/** Parses the first document of a YAML or JSON text. The error names the line where the reader has one. */
export function parseConfigurationDocument(given: string): ConfigurationDocument | { readonly error: string } {
  const text = given.replace(/^\ufeff/, '')
  if (text.length > MAX_CHARACTERS) return { error: TOO_LONG }
  const isJson = /^\s*\{/.test(text)
  const jsonError = isJson ? jsonErrorOf(text) : undefined
  if (jsonError !== undefined) return { error: jsonError }
  if (!isJson && CONTROL.test(text)) return { error: 'yaml: control characters are not allowed' }
  try {
    return readDocument(text, isJson)
  } catch (cause) {
    // Deep nesting overflows the stack of a recursive reader.
    if (cause instanceof RangeError) return { error: outOfStackError(text) }
    throw cause
  }
}

/** The yaml package takes more than JSON. */
function jsonErrorOf(text: string): string | undefined {
  try {
    JSON.parse(text)
    return undefined
  } catch (cause) {
    // V8 quotes the text with its line breaks.
    return `json: ${printable(errorText(cause))}`
  }
}

/** Brackets that a reader certainly takes. */
const HARMLESS_DEPTH = 500

/** The error for a text that the reader has no stack for: one that nests too deeply, or a mistake in a long list. */
function outOfStackError(text: string): string {
  const { depth, line } = nestingOf(text)
  return depth > HARMLESS_DEPTH ? 'yaml: too deep' : `yaml: line ${line}: a comma or the end of the list is missing`
}

function readDocument(text: string, isJson: boolean): ConfigurationDocument | { readonly error: string } {
  const parsed = readFirst(text)
  if ('error' in parsed) return parsed
  const { document, others, lines } = parsed
  const wrong = document === undefined ? undefined : wrongAlias(document)
  if (wrong !== undefined) return { error: `yaml: ${wrong}` }
  let value: unknown
  try {
    value = document?.toJS({ maxAliasCount: MAX_ALIASES }) ?? null
  } catch (cause) {
    // An alias without an anchor, too many of them, or a merge with something that is no map.
    if (cause instanceof RangeError) throw cause
    return { error: `yaml: ${errorText(cause).slice(0, MAX_MESSAGE)}` }
  }
  const unsupported = findUnsupported(value)
  if (unsupported !== undefined) return { error: `${formatPath(unsupported)}: not a finite number` }
  return {
    value: isJson ? value : inOrder(value),
    duplicates: document === undefined ? [] : findDuplicates(document, lines, isJson),
    others: others.map(plainValue),
    isJson,
    lineOf: (path) => (document === undefined ? undefined : findLine(document, lines, path)),
  }
}

/** Largest number of mistakes of one kind in a report, which is one line of the log. */
export const MAX_REPORTED = 100

/** The message of a reader, which may quote a part of the file, is cut to this length. */
const MAX_MESSAGE = 150

/**
 * Aliases of a document, each of which is looked for among all of them, and values that one anchor
 * may expand to; a file with more is an attempt to exhaust time or memory.
 */
const MAX_ALIASES = 1_000

interface Documents {
  readonly document: Document | undefined
  /** Those after the first that are not empty. */
  readonly others: readonly Document[]
  readonly lines: LineCounter
}

function readFirst(text: string): Documents | { error: string } {
  const lines = new LineCounter()
  const parsed = parseAllDocuments(text, {
    version: '1.1',
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: 'silent',
    lineCounter: lines,
    customTags: (tags) => [
      ...tags.filter(
        (tag) => typeof tag === 'string' || !(EXTRA_TAGS.has(tag.format ?? '') || EXTRA_TAGS.has(tag.tag)),
      ),
      OCTAL,
    ],
  })
  const [document, ...more] = Array.isArray(parsed) ? parsed : []
  const [error] = document?.errors ?? []
  if (error !== undefined) {
    // The package catches the overflow of the stack itself.
    if (isOutOfStack(error.message)) return { error: outOfStackError(text) }
    const message = error.message.replace(/\n[^]*$/, '').slice(0, MAX_MESSAGE)
    return { error: `yaml: line ${lines.linePos(error.pos[0]).line}: ${message}` }
  }
  return { document, others: more.filter((other) => !isEmpty(other)), lines }
}

function isEmpty({ contents }: Document): boolean {
  return contents === null || (isScalar(contents) && contents.value === null)
}

function plainValue(document: Document): unknown {
  if (wrongAlias(document) !== undefined) return undefined
  try {
    return document.toJS({ maxAliasCount: MAX_ALIASES })
  } catch {
    return undefined
  }
}

/**
 * What is wrong with the aliases: there are too many, or an anchor contains an alias to itself. Also
 * turns the numbers that Go reads as text into text.
 */
function wrongAlias(document: Document): string | undefined {
  let found: string | undefined
  let count = 0
  visit(document, {
    Alias: (_, { source }, path) => {
      if (path.some((node) => (isMap(node) || isSeq(node)) && node.anchor === source))
        found = `anchor '${source}' value contains itself`
      else if (++count > MAX_ALIASES) found = `more than ${MAX_ALIASES} aliases`
      return found === undefined ? undefined : visit.BREAK
    },
    // Go reads a number that is too large as text, and so a single dot.
    Scalar: (_, node) => {
      const { value, source } = node
      if (typeof value === 'number' && !Number.isFinite(value) && source !== undefined && !/nan|inf/i.test(source))
        node.value = source
    },
  })
  return found
}

/** Where there is Infinity or NaN, which YAML has but JSON does not. */
function findUnsupported(value: unknown, path: Path = []): Path | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : path
  if (typeof value !== 'object' || value === null) return undefined
  for (const [key, inner] of Object.entries(value)) {
    const found = findUnsupported(inner, [...path, Array.isArray(value) ? Number(key) : key])
    if (found !== undefined) return found
  }
  return undefined
}

/** `logging.vmodule[0].x` */
export function formatPath(path: Path): string {
  return path
    .map((step, index) => (typeof step === 'number' ? `[${step}]` : `${index > 0 ? '.' : ''}${String(step)}`))
    .join('')
}

/** Go converts YAML to JSON through maps, which it writes in alphabetical order. */
function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inOrder)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([key, inner]) => [key, inOrder(inner)]))
}

function findDuplicates(document: Document, lines: LineCounter, isJson: boolean): Duplicate[] {
  const duplicates: Duplicate[] = []
  const walk = (node: unknown, path: Path): void => {
    if (duplicates.length >= MAX_REPORTED) return
    if (isSeq(node)) for (const [index, item] of node.items.entries()) walk(item, [...path, index])
    if (!isMap(node)) return
    const seen = new Set<string>()
    for (const { key, value } of node.items) {
      const name = isScalar(key) ? String(key.value) : ''
      const inner = [...path, name]
      walk(value, inner)
      if (seen.has(name) && duplicates.length < MAX_REPORTED) {
        const line = lines.linePos(offsetOf(value) ?? offsetOf(key) ?? 0).line
        const text = isJson
          ? `duplicate field ${quote(inner.join('.'))}`
          : `line ${line}: key ${quote(name)} already set in map`
        duplicates.push({ path: inner, text })
      }
      seen.add(name)
    }
  }
  walk(document.contents, [])
  return duplicates
}

const offsetOf = (node: unknown): number | undefined =>
  isScalar(node) || isMap(node) || isSeq(node) || isAlias(node) ? node.range?.[0] : undefined

/** Line of the key of a value, or of a list item. */
function findLine(document: Document, lines: LineCounter, path: Path): number | undefined {
  let node: unknown = document.contents
  let place: Node | undefined
  for (const step of path) {
    if (isAlias(node)) node = node.resolve(document)
    if (isMap(node)) {
      // Of equal keys the last one counts.
      const pair = node.items.findLast(({ key }) => isScalar(key) && String(key.value) === String(step))
      if (pair === undefined || !isScalar(pair.key)) return undefined
      place = pair.key
      node = pair.value
    } else if (isSeq(node)) {
      const item: unknown = node.items[Number(step)]
      if (!isScalar(item) && !isMap(item) && !isSeq(item)) return undefined
      place = item
      node = item
    } else return undefined
  }
  const offset = place?.range?.[0]
  return offset === undefined ? undefined : lines.linePos(offset).line
}
