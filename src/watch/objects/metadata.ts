/**
 * The metadata every object has: what identifies it and what tells one version of it from another.
 * A resourceVersion is compared for equality only; its order means nothing to a client.
 */
import type { ObjectKind } from '../../service/objects.ts'
import { describe, isObject, type JsonObject } from './findings.ts'
import type { Intern } from './intern.ts'
import { isDnsLabel, isDnsSubdomain } from './names.ts'

/** A resource version in the smallest form that still compares: a number where the text is one, as it is in practice. */
export type ResourceVersion = string | number

export interface Metadata {
  /** '' for a Node. */
  readonly namespace: string
  readonly name: string
  /** `namespace/name`; a Node's just `name`. */
  readonly key: string
  /** '' in a manifest. */
  readonly resourceVersion: ResourceVersion
  readonly labels: JsonObject
  readonly json: JsonObject
}

/** metav1 InitialEventsAnnotationKey: marks the bookmark that ends a streaming list. */
export const INITIAL_EVENTS_END = 'k8s.io/initial-events-end'

const NO_LABELS: JsonObject = {}

/** The word for one object of a kind, in the subject of its problems. */
const SUBJECT_WORD: Readonly<Record<ObjectKind, string>> = {
  services: 'service',
  endpointslices: 'endpointslice',
  nodes: 'node',
}

/** `service demo/web`: kinds share keys, so the subject of a problem names both. */
export function subjectOf(kind: ObjectKind, key: string): string {
  return `${SUBJECT_WORD[kind]} ${key}`
}

/** Metadata of an object as the API server or a manifest gives it; undefined for what has no name. */
export function parseMetadata(kind: ObjectKind, json: unknown, intern: Intern): Metadata | undefined {
  if (!isObject(json)) return undefined
  const metadata = json['metadata']
  if (!isObject(metadata)) return undefined
  const { name, namespace, resourceVersion, labels } = metadata
  if (typeof name !== 'string' || name === '') return undefined
  const shared = {
    name: kind === 'nodes' ? intern(name) : name,
    resourceVersion: compactResourceVersion(resourceVersion),
    labels: isObject(labels) ? labels : NO_LABELS,
    json: metadata,
  }
  if (kind === 'nodes') return { ...shared, namespace: '', key: shared.name }
  const inNamespace = typeof namespace === 'string' && namespace !== '' ? intern(namespace) : 'default'
  return { ...shared, namespace: inNamespace, key: `${inNamespace}/${name}` }
}

/** Which field of the metadata is a name that no API server would have taken, and why; undefined for none. */
export function wrongName(
  kind: ObjectKind,
  { namespace, name }: Pick<Metadata, 'namespace' | 'name'>,
): { readonly field: string; readonly message: string } | undefined {
  if (kind !== 'nodes' && !isDnsLabel(namespace))
    return { field: 'metadata.namespace', message: `${describe(namespace)} is not a DNS label` }
  if (kind === 'services' ? isDnsLabel(name) : isDnsSubdomain(name)) return undefined
  const what = kind === 'services' ? 'DNS label' : 'DNS subdomain'
  return { field: 'metadata.name', message: `${describe(name)} is not a ${what}` }
}

/** '' when it is absent or no text. */
function compactResourceVersion(resourceVersion: unknown): ResourceVersion {
  if (typeof resourceVersion !== 'string') return ''
  const number = Number(resourceVersion)
  return Number.isSafeInteger(number) && String(number) === resourceVersion ? number : resourceVersion
}

/** A time stamp in milliseconds since the epoch; 0 when absent or not one. YAML 1.1 and protobuf have dates. */
export function timestampMs(value: unknown): number {
  const time = value instanceof Date ? value.getTime() : typeof value === 'string' ? Date.parse(value) : Number.NaN
  return Number.isFinite(time) ? time : 0
}
