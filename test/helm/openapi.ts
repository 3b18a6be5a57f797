/**
 * Checks objects against the recorded OpenAPI of Kubernetes releases, as strictly as the API server
 * with field validation Strict: types, required fields, and no unknown field.
 */
import { readFileSync } from 'node:fs'
import { recordingPath } from '../support/recordings.ts'

interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly format?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: Schema
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly 'x-kubernetes-group-version-kind'?: readonly {
    readonly group: string
    readonly version: string
    readonly kind: string
  }[]
}

interface Recorded {
  readonly releases: readonly string[]
  readonly definitions: readonly {
    readonly name: string
    readonly releases: readonly string[]
    readonly definition: Schema
  }[]
}

const recorded: Recorded = JSON.parse(readFileSync(recordingPath('openapi/kubernetes.json'), 'utf8'))

/** The recorded releases: `v1.37.2`. */
export const RELEASES = recorded.releases

export interface KubernetesObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly namespace?: string
    readonly labels?: Readonly<Record<string, string>>
    readonly annotations?: Readonly<Record<string, string>>
  }
  readonly [field: string]: unknown
}

/** What the OpenAPI of a release finds wrong with an object: `spec.template.spec: unknown field "x"`. */
export function problemsOf(object: KubernetesObject, release: string): readonly string[] {
  const definitions = new Map(
    recorded.definitions
      .filter(({ releases }) => releases.includes(release))
      .map(({ name, definition }) => [name, definition]),
  )
  const kind = [...definitions.values()].find((definition) =>
    definition['x-kubernetes-group-version-kind']?.some(
      ({ group, version, kind }) =>
        (group === '' ? version : `${group}/${version}`) === object.apiVersion && kind === object.kind,
    ),
  )
  if (kind === undefined) return [`no kind ${object.apiVersion} ${object.kind}`]
  const problems: string[] = []
  const check = (value: unknown, schema: Schema, path: string): void => {
    const name = schema.$ref?.replace('#/definitions/', '')
    const resolved = name === undefined ? schema : definitions.get(name)
    if (resolved === undefined) problems.push(`${path}: no definition ${name}`)
    else if (!hasType(value, resolved, name ?? ''))
      problems.push(`${path}: ${typeName(value)} instead of ${resolved.type}`)
    else if (Array.isArray(value))
      for (const [index, item] of value.entries()) check(item, resolved.items ?? {}, `${path}[${index}]`)
    else if (typeof value === 'object' && value !== null) checkFields(value, resolved, path)
  }
  const checkFields = (
    value: object,
    { properties = {}, additionalProperties, required = [] }: Schema,
    path: string,
  ): void => {
    for (const name of required) if (!Object.hasOwn(value, name)) problems.push(`${path}: "${name}" is missing`)
    for (const [name, inner] of Object.entries(value)) {
      const schema = properties[name] ?? additionalProperties
      if (schema === undefined) problems.push(`${path}: unknown field "${name}"`)
      else check(inner, schema, `${path}.${name}`)
    }
  }
  check(object, kind, object.kind)
  return problems
}

function hasType(value: unknown, { type, format }: Schema, name: string): boolean {
  if (name.endsWith('.Quantity') || format === 'int-or-string')
    return typeof value === 'string' || Number.isInteger(value)
  switch (type) {
    case undefined:
      return true
    case 'array':
      return Array.isArray(value)
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value)
    case 'integer':
      return Number.isInteger(value)
    default:
      return typeof value === type
  }
}

function typeName(value: unknown): string {
  return value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value
}
