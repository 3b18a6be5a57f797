/**
 * Writes a configuration as the v1alpha1 object that /configz shows, and as the YAML of
 * `--write-config-to`, in the form of Go's sigs.k8s.io/yaml: keys in order, lists indented as their
 * key. The text is compared byte for byte with kube-proxy's.
 */
import { parse } from 'yaml'
import { formatDuration } from '../values/duration.ts'
import { refusesIpvs } from './gates.ts'
import { API_VERSION, GIVEN_EMPTY, KIND } from './schema.ts'
import type { FieldPath, UncheckedConfiguration } from './types.ts'
import { FIELD_PATHS, fieldAt, isDuration, valueOf, withValueAt } from './values.ts'

/** Plain JSON values under v1alpha1's names; durations as text, a list that was not given as null. */
export function toV1alpha1(configuration: UncheckedConfiguration): Readonly<Record<string, unknown>> {
  let written: object = { apiVersion: API_VERSION, kind: KIND }
  for (const path of FIELD_PATHS)
    if (isWritten(configuration, path)) written = withValueAt(written, path.split('.'), writeValue(configuration, path))
  // Without the block a reader of the written file would refuse ipvs mode.
  const { kubeIPVSGiven, featureGates } = configuration
  const keepsBlock = kubeIPVSGiven === true && refusesIpvs({ featureGates })
  return { ...(keepsBlock ? { kubeIPVS: {} } : {}), ...written }
}

function isWritten(configuration: UncheckedConfiguration, path: FieldPath): boolean {
  const { written, default: fallback } = fieldAt(path)
  if (written === undefined) return true
  return written === 'unlessDefault' && JSON.stringify(valueOf(configuration, path)) !== JSON.stringify(fallback)
}

function writeValue(configuration: UncheckedConfiguration, path: FieldPath): unknown {
  const value = valueOf(configuration, path)
  const { kind } = fieldAt(path)
  if (kind === 'flushFrequency' && configuration.logging.flushFrequencyAsNumber) return Number(value) * 1e6
  if (isDuration(kind)) return formatDuration(Number(value))
  return kind === 'texts' && Array.isArray(value) && value.length === 0 && value !== GIVEN_EMPTY ? null : value
}

/** Lines are broken at the first space after this column. */
const BEST_WIDTH = 80

/** A document of one block. */
export function toYaml(value: Readonly<Record<string, unknown>>): string {
  return block(value, 0)
}

function block(value: object, indent: number): string {
  const keys = Object.keys(value).sort()
  return keys
    .map((key) => `${' '.repeat(indent)}${scalar(key, indent, indent)}:${inside(Reflect.get(value, key), indent, key)}`)
    .join('')
}

/** The text after a key, with its line break. */
function inside(value: unknown, indent: number, key: string): string {
  if (Array.isArray(value)) {
    if (value.length === 0) return ' []\n'
    return `\n${value.map((item) => `${' '.repeat(indent)}-${listItem(item, indent)}`).join('')}`
  }
  if (typeof value === 'object' && value !== null) {
    return Object.keys(value).length === 0 ? ' {}\n' : `\n${block(value, indent + 2)}`
  }
  return ` ${scalar(value, indent + 2, indent + key.length + 2)}\n`
}

function listItem(item: unknown, indent: number): string {
  if (typeof item !== 'object' || item === null) return ` ${scalar(item, indent + 2, indent + 2)}\n`
  return ` ${block(item, indent + 2).trimStart()}`
}

/** A value of one line, or of several that are indented; `column` is where it begins. */
function scalar(value: unknown, indent: number, column: number): string {
  if (typeof value !== 'string') return String(value)
  if (SPECIAL.test(value) || value.includes(' \n')) return doubleQuoted(value)
  if (value.includes('\n')) return literal(value, indent)
  if (looksLikeSomethingElse(value)) return doubleQuoted(value)
  if (mayStandPlain(value)) return folded(value, indent, column)
  return `'${folded(value.replaceAll("'", "''"), indent, column + 1)}'`
}

/** Characters that need double quotes. */
const SPECIAL = /[^\n\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]/

/** Numbers to base 60 and times: go-yaml reads them as text, other readers do not. */
const BASE_60 = /^[-+]?\d[\d_]*(?::[0-5]?\d)+(?:\.[\d_]*)?$/
const TIME = /^\d{4}-\d\d?-\d\d?(?:(?:[Tt]| +)\d\d?:\d\d?:\d\d?(?:\.\d*)?(?: ?(?:Z|[+-]\d\d?(?::\d\d)?))?)?$/

/** A text that would be read back as a number, a boolean, null or a time. */
function looksLikeSomethingElse(text: string): boolean {
  if (text === '' || BASE_60.test(text) || TIME.test(text)) return true
  if (/^[-+]?0o[0-7_]+$/.test(text)) return true
  if (/^ | $|^---|^\.\.\.|^[-+]?\.$/.test(text) || !/^([-+.\d]|[a-zA-Z~]{1,5}$)/.test(text)) return false
  try {
    const read: unknown = parse(text, { version: '1.1', logLevel: 'silent' })
    return typeof read !== 'string' && (typeof read !== 'object' || read === null)
  } catch {
    return false
  }
}

function mayStandPlain(text: string): boolean {
  return (
    !/^[ ,[\]{}#&*!|>'"%@`]/.test(text) &&
    !/^[-?:]($| )/.test(text) &&
    !/^(---|\.\.\.)/.test(text) &&
    !/:( |$)| #| $/.test(text)
  )
}

/** Breaks long lines at single spaces. */
function folded(text: string, indent: number, column: number): string {
  let out = ''
  let at = column
  for (const [index, letter] of [...text].entries()) {
    const before = text[index - 1]
    const after = text[index + 1]
    if (letter === ' ' && at > BEST_WIDTH && before !== ' ' && after !== undefined && after !== ' ') {
      out += `\n${' '.repeat(indent)}`
      at = indent
    } else {
      out += letter
      at++
    }
  }
  return out
}

/** `|`, `|-` or `|+` by the line breaks at the end; with a number where the text begins with a space. */
function literal(text: string, indent: number): string {
  const chomp = !text.endsWith('\n') ? '-' : /(^|\n)\n$/.test(text) ? '+' : ''
  const hint = /^[ \n]/.test(text) ? '2' : ''
  const lines = text.replace(/\n$/, '').split('\n')
  return `|${hint}${chomp}\n${lines.map((line) => (line === '' ? '' : ' '.repeat(indent) + line)).join('\n')}`
}

function doubleQuoted(text: string): string {
  let out = ''
  for (const letter of text) out += ESCAPES[letter] ?? escaped(letter)
  return `"${out}"`
}

const ESCAPES: Readonly<Record<string, string>> = {
  '\0': '\\0',
  '\x07': '\\a',
  '\b': '\\b',
  '\t': '\\t',
  '\n': '\\n',
  '\v': '\\v',
  '\f': '\\f',
  '\r': '\\r',
  '\x1b': '\\e',
  '"': '\\"',
  '\\': '\\\\',
  '\x85': '\\N',
  '\u2028': '\\L',
  '\u2029': '\\P',
}

function escaped(letter: string): string {
  const code = letter.codePointAt(0) ?? 0
  if ((code >= 0x20 && code <= 0x7e) || (code >= 0xa0 && code <= 0xffff && code !== 0xfeff)) return letter
  if (code > 0xffff) return `\\U${code.toString(16).toUpperCase().padStart(8, '0')}`
  if (code <= 0xff) return `\\x${code.toString(16).toUpperCase().padStart(2, '0')}`
  return `\\u${code.toString(16).toUpperCase().padStart(4, '0')}`
}
