/** Reads and sets the values of a configuration by the paths of the table of fields. */
import { formatDuration } from '../values/duration.ts'
import type { DurationKind, Field } from './field.ts'
import { FIELDS } from './fields.ts'
import type { FieldPath, FieldValues, UncheckedConfiguration } from './types.ts'

/** All paths, in the order of the table. */
export const FIELD_PATHS = Object.keys(FIELDS) as readonly FieldPath[] // Object.keys forgets whose keys they are

/** The row of a field. */
export function fieldAt(path: FieldPath): Field {
  return FIELDS[path]
}

export function isDuration(kind: Field['kind']): kind is DurationKind {
  return kind === 'duration' || kind === 'optionalDuration' || kind === 'flushFrequency'
}

/** The keys that lead to a field in a configuration. */
function keysOf(path: FieldPath): readonly string[] {
  const keys = path.split('.')
  return isDuration(FIELDS[path].kind) ? [...keys.slice(0, -1), `${keys.at(-1) ?? ''}Ms`] : keys
}

/** The value of a field. */
export function valueOf(configuration: UncheckedConfiguration, path: FieldPath): unknown {
  return valueAt(configuration, keysOf(path))
}

/** A copy with other values for some fields. */
export function withValues(configuration: UncheckedConfiguration, values: FieldValues): UncheckedConfiguration {
  let result: object = configuration
  for (const path of FIELD_PATHS) if (path in values) result = withValueAt(result, keysOf(path), values[path])
  return result as UncheckedConfiguration // the types of the values are those of their paths
}

/** The blocks of a configuration with the value of every field; `read` gives what the field's kind holds. */
export function configurationOf(read: (path: FieldPath) => unknown): Omit<UncheckedConfiguration, 'clusterCIDRGiven'> {
  let result: object = {}
  for (const path of FIELD_PATHS) result = withValueAt(result, keysOf(path), read(path))
  return result as UncheckedConfiguration // `read` keeps to the kinds of the table, from which the type is made
}

/** The value at a path of any nested objects; undefined when there is none. */
export function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  let found = value
  for (const step of path) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, step)) return undefined
    found = Reflect.get(found, step)
  }
  return found
}

/** A copy with a value at a path, whose blocks are made where they are missing. */
export function withValueAt(object: object, [key = '', ...rest]: readonly string[], value: unknown): object {
  if (rest.length === 0) return { ...object, [key]: value }
  const inner: unknown = Reflect.get(object, key)
  return { ...object, [key]: withValueAt(typeof inner === 'object' && inner !== null ? inner : {}, rest, value) }
}

/** The default of a field as kube-proxy prints it for a flag: '' where there is none, `[]` for an empty list. */
export function defaultAsText(path: FieldPath): string {
  const { kind, default: fallback } = fieldAt(path)
  if (isDuration(kind)) return formatDuration(Number(fallback))
  if (kind === 'texts' && Array.isArray(fallback)) return `[${fallback.join(',')}]`
  return typeof fallback === 'object' || fallback === undefined ? '' : String(fallback)
}
