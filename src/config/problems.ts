/**
 * Problems of a configuration document in words: where it stands, which field, what is wrong.
 * What could break: these are for people; the codes are what programs look at, and they never change.
 */
import type { Problem } from '../values/errors.ts'
import { nearest } from '../values/nearest.ts'
import type { ConfigurationDocument, Path } from './document.ts'
import { DOCUMENT, type GoType } from './schema.ts'

/** A field that nobody knows: named with its line and, if one is near, with the field that was probably meant. */
export function unknownFieldWarning(path: Path, document: ConfigurationDocument, source: string): Problem {
  let siblings: GoType['fields'] = DOCUMENT.fields
  for (const step of path.slice(0, -1)) siblings = siblings?.[String(step)]?.fields
  const guess = nearest(String(path.at(-1)), Object.keys(siblings ?? {}))
  const line = document.lineOf(path)
  return {
    code: 'config-unknown-field',
    subject: line === undefined ? source : `${source}:${line}`,
    field: formatPath(path),
    message: `unknown field, ignored${guess === undefined ? '' : ` (did you mean ${guess}?)`}`,
  }
}

/** `logging.vmodule[0].x` */
export function formatPath(path: Path): string {
  return path
    .map((step, index) => (typeof step === 'number' ? `[${step}]` : `${index > 0 ? '.' : ''}${String(step)}`))
    .join('')
}
