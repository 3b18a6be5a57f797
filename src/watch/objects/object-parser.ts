/**
 * One object of any of the three kinds to the change it means for the rest of the program.
 * An object without a name has no key: it is a problem by itself and never a change. One with a name that no API server
 * takes is refused as a whole.
 */
import type { ObjectChange, ObjectKind } from '../../service/objects.ts'
import type { Problem } from '../../values/errors.ts'
import { isObject, type Origin } from './findings.ts'
import type { Intern } from './intern.ts'
import { type Metadata, subjectOf, wrongName } from './metadata.ts'
import { parseNode } from './node-parser.ts'
import { parseService } from './service-parser.ts'
import { parseSlice } from './slice-parser.ts'

/** What an object means, and what is wrong with it. */
export interface ParsedObject {
  /** Its `value` is undefined when this is not an object that we proxy. */
  readonly change: ObjectChange
  readonly problems: readonly Problem[]
}

/** Parses an object whose metadata is known. Never throws, whatever `json` is. */
export function parseObject(
  kind: ObjectKind,
  json: unknown,
  metadata: Metadata,
  intern: Intern,
  origin: Origin = 'api',
): ParsedObject {
  const object = isObject(json) ? json : {}
  const { key } = metadata
  const wrong = wrongName(kind, metadata)
  if (wrong !== undefined)
    return { change: removal(kind, key), problems: [{ code: 'invalid-name', subject: subjectOf(kind, key), ...wrong }] }
  switch (kind) {
    case 'services': {
      const { value, problems } = parseService(object, metadata, intern, origin)
      return { change: { kind, key, value }, problems }
    }
    case 'endpointslices': {
      const { value, problems } = parseSlice(object, metadata, intern, origin)
      return { change: { kind, key, value }, problems }
    }
    case 'nodes': {
      const { value, problems } = parseNode(object, metadata)
      return { change: { kind, key, value }, problems }
    }
  }
}

/** The change that takes an object away. */
export function removal(kind: ObjectKind, key: string): ObjectChange {
  return { kind, key, value: undefined }
}
