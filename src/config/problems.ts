/**
 * Problems of a configuration document in words: where it stands, which field, what is wrong.
 * What could break: these are for people; the codes are what programs look at, and they never change.
 */
import type * as z from 'zod'
import type { Problem } from '../values/errors.ts'
import { nearest } from '../values/nearest.ts'
import type { ConfigurationDocument, Path } from './document.ts'
import type { KubeProxyConfiguration } from './types.ts'
import { toV1alpha1 } from './write.ts'

/** `config.yaml:12`, or only the source when the line is not known. */
export function at(source: string, line: number | undefined): string {
  return line === undefined ? source : `${source}:${line}`
}

/** The value at a path; undefined when there is none. */
export function valueAt(value: unknown, path: Path): unknown {
  let found = value
  for (const step of path) {
    if (typeof found !== 'object' || found === null) return undefined
    found = Reflect.get(found, step)
  }
  return found
}

/** A field that nobody knows: named with its line and, if one is near, with the field that was probably meant. */
export function unknownFieldWarning(
  path: Path,
  document: ConfigurationDocument,
  source: string,
  configuration: KubeProxyConfiguration,
): Problem {
  const siblings = valueAt(toV1alpha1(configuration), path.slice(0, -1))
  const names = typeof siblings === 'object' && siblings !== null ? Object.keys(siblings) : []
  const guess = nearest(String(path.at(-1)), names)
  return {
    code: 'config-unknown-field',
    subject: at(source, document.lineOf(path)),
    field: formatPath(path),
    message: `unknown field, ignored${guess === undefined ? '' : ` (did you mean ${guess}?)`}`,
  }
}

function formatPath(path: Path): string {
  return path
    .map((step, index) => (typeof step === 'number' ? `[${step}]` : `${index > 0 ? '.' : ''}${String(step)}`))
    .join('')
}

/** A value of the wrong type: what was expected and what was found. */
export function typeError(issue: z.core.$ZodIssue, document: ConfigurationDocument, source: string): Problem {
  return {
    code: 'config-type',
    subject: at(source, document.lineOf(issue.path)),
    field: formatPath(issue.path),
    message: typeReason(issue, valueAt(document.value, issue.path)),
  }
}

function typeReason(issue: z.core.$ZodIssue, value: unknown): string {
  switch (issue.code) {
    case 'invalid_type':
      return `expected ${EXPECTED[issue.expected] ?? issue.expected}, got ${nameType(value)}`
    case 'too_big':
    case 'too_small':
      return `${String(value)} does not fit into 32 bits`
    case 'invalid_union': {
      // The branch that knew the type has the better reason: a text that is no duration.
      const inner = issue.errors.flat().find(({ code }) => code === 'custom')
      return inner?.message ?? `expected a text or a number, got ${nameType(value)}`
    }
    default:
      return issue.message
  }
}

/** zod's words for types in ours. */
const EXPECTED: Readonly<Record<string, string>> = {
  string: 'a text',
  boolean: 'true or false',
  number: 'a number',
  int: 'a whole number',
  array: 'a list',
  object: 'a block of fields',
  record: 'a block of fields',
}

/** A value as a message names it: `the text "10"`, `a list`, `5`. */
export function nameType(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  switch (typeof value) {
    case 'string':
      return `the text ${JSON.stringify(value)}`
    case 'number':
    case 'boolean':
      return String(value)
    case 'object':
      return 'a block of fields'
    default:
      return typeof value
  }
}
