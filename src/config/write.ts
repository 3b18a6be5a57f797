/** A configuration as the v1alpha1 object it was read from: what /configz shows and `--write-config-to` writes. */
import { formatDuration } from './duration.ts'
import { API_VERSION, GIVEN_EMPTY, KIND } from './schema.ts'
import type { FieldPath, UncheckedConfiguration } from './types.ts'
import { FIELD_PATHS, fieldAt, isDuration, valueOf, withValueAt } from './values.ts'

/** Plain JSON values under v1alpha1's names; durations as text, a list that was not given as null. */
export function toV1alpha1(configuration: UncheckedConfiguration): Readonly<Record<string, unknown>> {
  let written: object = { apiVersion: API_VERSION, kind: KIND }
  for (const path of FIELD_PATHS)
    if (isWritten(configuration, path)) written = withValueAt(written, path.split('.'), writeValue(configuration, path))
  return { ...written }
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
