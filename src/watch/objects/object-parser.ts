/**
 * Parses one object of any of the three kinds: its metadata, which identify it, and the change that
 * it means. The names are checked here, once, because they appear in log lines and in comments of
 * iptables rules, and no API server has validated those of a manifest.
 */
import type { ObjectChange, ObjectKind } from '../../service/objects.ts'
import type { Problem } from '../../values/errors.ts'
import { describe, Findings, isDnsLabel, isDnsSubdomain, isObject, type JsonObject } from './findings.ts'
import type { Intern, Metadata, Origin, ParserInput, ResourceVersion } from './findings.ts'
import { parseNode } from './node-parser.ts'
import { parseService } from './service-parser.ts'
import { parseSlice } from './slice-parser.ts'

/** metav1 InitialEventsAnnotationKey: marks the bookmark at the end of a streaming list. */
export const INITIAL_EVENTS_END = 'k8s.io/initial-events-end'

/** The change that an object means, and what is wrong with the object. */
export interface ParsedObject {
  /** Its `value` is undefined when this proxy does not serve the object. */
  readonly change: ObjectChange
  readonly problems: readonly Problem[]
}

const NO_LABELS: JsonObject = {}

/** The word for one object of a kind in the subject of its problems. */
const SUBJECT_WORD: Readonly<Record<ObjectKind, string>> = {
  services: 'service',
  endpointslices: 'endpointslice',
  nodes: 'node',
}

/**
 * The subject of an object's problems, `service demo/web`. It names the kind because objects of two
 * kinds may have one key.
 */
export function subjectOf(kind: ObjectKind, key: string): string {
  return `${SUBJECT_WORD[kind]} ${key}`
}

/** The metadata of an object from the API server or a manifest; undefined without a name. */
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

/** '' when it is absent or not text. */
function compactResourceVersion(resourceVersion: unknown): ResourceVersion {
  if (typeof resourceVersion !== 'string') return ''
  const number = Number(resourceVersion)
  return Number.isSafeInteger(number) && String(number) === resourceVersion ? number : resourceVersion
}

/** Parses an object with these metadata; a wrong name refuses the whole object. Never throws, for any `json`. */
export function parseObject(
  kind: ObjectKind,
  json: unknown,
  metadata: Metadata,
  intern: Intern,
  origin: Origin = 'api',
  labels?: ReadonlySet<string>,
): ParsedObject {
  const { key } = metadata
  const subject = subjectOf(kind, key)
  const wrong = wrongName(kind, metadata)
  if (wrong !== undefined)
    return { change: removal(kind, key), problems: [{ code: 'invalid-name', about: 'object', subject, ...wrong }] }
  const findings = new Findings(subject)
  const change = parseChange(kind, { json: isObject(json) ? json : {}, metadata, findings, intern, origin, labels })
  return { change, problems: findings.problems }
}

function parseChange(kind: ObjectKind, input: ParserInput): ObjectChange {
  const { key } = input.metadata
  switch (kind) {
    case 'services':
      return { kind, key, value: parseService(input) }
    case 'endpointslices':
      return { kind, key, value: parseSlice(input) }
    case 'nodes':
      return { kind, key, value: parseNode(input) }
  }
}

/** The change that removes an object. */
export function removal(kind: ObjectKind, key: string): ObjectChange {
  return { kind, key, value: undefined }
}

/** The name in the metadata that the API server would refuse, and why; undefined when all are valid. */
function wrongName(
  kind: ObjectKind,
  { namespace, name }: Metadata,
): { readonly field: string; readonly message: string } | undefined {
  if (kind !== 'nodes' && !isDnsLabel(namespace))
    return { field: 'metadata.namespace', message: `${describe(namespace)} is not a DNS label` }
  if (kind === 'services' ? isDnsLabel(name) : isDnsSubdomain(name)) return undefined
  const rule = kind === 'services' ? 'DNS label' : 'DNS subdomain'
  return { field: 'metadata.name', message: `${describe(name)} is not a ${rule}` }
}
