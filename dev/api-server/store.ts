/**
 * The objects of the API server: versions, history, selectors. A watch gets an object that stops
 * matching its selector as DELETED, and one that starts to match as ADDED.
 */
import type { ObjectKind } from '../../src/service/objects.ts'

export type Json = { readonly [name: string]: unknown }

/** An object as it is sent. */
export interface Sendable {
  readonly apiVersion: string
  /** `Service`, `Status`. */
  readonly kind: string
  /** The whole object as one line. */
  readonly json: string
}

/** An object with the fields that selectors use. */
export interface Stored extends Sendable {
  readonly key: string
  readonly version: number
  readonly labels: Readonly<Record<string, unknown>>
  /** By field path: `metadata.name`, `spec.clusterIP`. */
  readonly fields: Readonly<Record<string, string>>
}

export interface StoreEvent {
  readonly version: number
  readonly kind: ObjectKind
  readonly before: Stored | undefined
  readonly after: Stored | undefined
}

export const API_VERSION: Readonly<Record<ObjectKind, string>> = {
  services: 'v1',
  endpointslices: 'discovery.k8s.io/v1',
  nodes: 'v1',
}
export const KIND_NAME: Readonly<Record<ObjectKind, string>> = {
  services: 'Service',
  endpointslices: 'EndpointSlice',
  nodes: 'Node',
}

export class ApiStore {
  readonly objects: Readonly<Record<ObjectKind, Map<string, Stored>>> = {
    services: new Map(),
    endpointslices: new Map(),
    nodes: new Map(),
  }
  /** The events that a watch can still start from; emptied by `compact`. */
  history: StoreEvent[] = []
  /** Versions below this one are too old to watch from. */
  compactedAt = 0
  /** The number of events after which the history drops its older half. */
  historyLimit = 100_000
  version = 100
  readonly listeners = new Set<(event: StoreEvent) => void>()

  /** Creates or replaces an object; its resourceVersion is the new version. */
  put(kind: ObjectKind, object: Json): Stored {
    const version = ++this.version
    const metadata = { ...asObject(object['metadata']), resourceVersion: String(version) }
    const stored = storedOf(
      kind,
      { kind: KIND_NAME[kind], apiVersion: API_VERSION[kind], ...object, metadata },
      version,
    )
    const before = this.objects[kind].get(stored.key)
    this.objects[kind].set(stored.key, stored)
    this.#emit({ version, kind, before, after: stored })
    return stored
  }

  /** Puts text that is not a valid object in an object's place. */
  putRaw(kind: ObjectKind, key: string, json: string): void {
    const version = ++this.version
    const before = this.objects[kind].get(key)
    const type = { apiVersion: API_VERSION[kind], kind: KIND_NAME[kind] }
    const stored: Stored = { ...type, key, version, json, labels: {}, fields: {} }
    this.objects[kind].set(key, stored)
    this.#emit({ version, kind, before, after: stored })
  }

  delete(kind: ObjectKind, key: string): void {
    const before = this.objects[kind].get(key)
    if (before === undefined) throw new Error(`there is no ${kind} ${key}`)
    this.objects[kind].delete(key)
    this.#emit({ version: ++this.version, kind, before, after: undefined })
  }

  /** Drops the history, as an etcd compaction does: watches from older versions get 410. */
  compact(): void {
    this.history = []
    this.compactedAt = this.version
  }

  #emit(event: StoreEvent): void {
    this.history.push(event)
    if (this.history.length > this.historyLimit) {
      const forgotten = this.history.splice(0, this.historyLimit / 2)
      this.compactedAt = forgotten.at(-1)?.version ?? this.compactedAt
    }
    for (const listener of this.listeners) listener(event)
  }
}

function storedOf(kind: ObjectKind, object: Json, version: number): Stored {
  const metadata = asObject(object['metadata'])
  const name = String(metadata['name'])
  const fields: Record<string, string> = { 'metadata.name': name }
  if (kind !== 'nodes') fields['metadata.namespace'] = String(metadata['namespace'] ?? 'default')
  const clusterIp = asObject(object['spec'])['clusterIP']
  if (typeof clusterIp === 'string') fields['spec.clusterIP'] = clusterIp
  return {
    apiVersion: API_VERSION[kind],
    kind: KIND_NAME[kind],
    key: kind === 'nodes' ? name : `${String(metadata['namespace'] ?? 'default')}/${name}`,
    version,
    json: JSON.stringify(object),
    labels: asObject(metadata['labels']),
    fields,
  }
}

/** The members of a value; none if it is not an object. */
export function asObject(value: unknown): Json {
  return typeof value === 'object' && value !== null ? (value as Json) : {}
}

/** The rule of a labelSelector (`!a`, `a`, `a=b`) and a fieldSelector (`a=b`, `a!=b`), several with commas. */
export function selectorOf(labelSelector: string, fieldSelector: string): (object: Stored) => boolean {
  const rules: ((object: Stored) => boolean)[] = []
  for (const part of labelSelector.split(',').filter(Boolean)) {
    if (part.startsWith('!')) rules.push(({ labels }) => !Object.hasOwn(labels, part.slice(1)))
    else if (part.includes('=')) {
      const [name = '', value] = part.split(/==?/)
      rules.push(({ labels }) => labels[name] === value)
    } else rules.push(({ labels }) => Object.hasOwn(labels, part))
  }
  for (const part of fieldSelector.split(',').filter(Boolean)) {
    const differs = part.includes('!=')
    const [name = '', value] = part.split(differs ? '!=' : /==?/)
    rules.push(({ fields }) => (fields[name] === value) !== differs)
  }
  return (object) => rules.every((rule) => rule(object))
}

/** An event as a watch sends it. */
export interface SentEvent {
  readonly type: string
  readonly object: Sendable
}

/** The event that a watch with this selector sends; undefined: it sends none. */
export function sentEvent(event: StoreEvent, selects: (object: Stored) => boolean): SentEvent | undefined {
  const before = event.before !== undefined && selects(event.before)
  if (event.after !== undefined && selects(event.after))
    return { type: before ? 'MODIFIED' : 'ADDED', object: event.after }
  if (event.before === undefined || !before) return undefined
  // A deleted object is sent as it was last, with the version of its deletion.
  const json = event.before.json.replace(/"resourceVersion":"\d+"/, `"resourceVersion":"${event.version}"`)
  return { type: 'DELETED', object: { ...event.before, json } }
}
