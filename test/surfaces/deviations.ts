/**
 * Where we do otherwise than recorded on purpose: `test/surfaces/deviations.yaml`.
 * What could break: a deviation that no longer shows is a failure too, or the list would rot.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'

export interface SurfaceDeviation {
  /** Name of the case. */
  readonly case: string
  /** Why it is better for the operator. */
  readonly reason: string
  /** All that the case finds to differ, as it prints it. */
  readonly instead: string
}

export const DEVIATIONS_FILE = join(import.meta.dirname, 'deviations.yaml')

/** Throws when the file is not of the form above. */
export function readDeviations(): readonly SurfaceDeviation[] {
  const list: unknown = parse(readFileSync(DEVIATIONS_FILE, 'utf8')) ?? []
  if (!Array.isArray(list)) throw new Error('deviations.yaml is no list')
  return list.map((entry: unknown, index) => {
    if (!isDeviation(entry)) throw new Error(`deviations.yaml, entry ${index + 1}: not case, reason, instead`)
    return entry
  })
}

function isDeviation(entry: unknown): entry is SurfaceDeviation {
  if (typeof entry !== 'object' || entry === null) return false
  const { case: name, reason, instead } = entry as Partial<Record<keyof SurfaceDeviation, unknown>> // checked next
  return [name, reason, instead].every((text) => typeof text === 'string' && text !== '')
}

/** What is to be shown for a case: nothing when it is as recorded, or deviates as listed. */
export function judge(found: readonly string[], deviation: SurfaceDeviation | undefined): readonly string[] {
  if (deviation === undefined) return found
  const text = found.map((one) => one.trimEnd()).join('\n')
  if (text === deviation.instead.trimEnd()) return []
  return [
    `it is to deviate:\n${deviation.instead.trimEnd()}`,
    ...(text === '' ? ['nothing differs'] : ['but:', ...found]),
  ]
}
