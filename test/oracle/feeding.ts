/**
 * What a case feeds the program: its configuration, laid over the base configuration as the
 * recorder did it, and the objects of a step, of which only what changed since the step before is
 * put into the API server.
 */
import { type ApiStore, asObject, type Json, KIND_NAME } from '../../dev/api-server/store.ts'
import type { ObjectKind } from '../../src/service/objects.ts'
import type { Lists, Step } from './case-file.ts'
import type { Mode } from './files.ts'

/** Shorter than the recorder's 5 s, so that audits repair sooner. */
const SYNC_PERIOD = '1s'

export function baseConfiguration(mode: Mode, kubeconfig: string): Json {
  return {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode,
    clusterCIDR: '10.244.0.0/16,fd00:10:244::/56',
    hostnameOverride: 'node0',
    metricsBindAddress: '0.0.0.0:10249',
    ipvs: { minSyncPeriod: '0s', syncPeriod: SYNC_PERIOD },
    iptables: { minSyncPeriod: '0s', syncPeriod: SYNC_PERIOD },
    clientConnection: { kubeconfig },
  }
}

export function merge(base: Json, over: Json | undefined): Json {
  const merged: Record<string, unknown> = { ...base }
  for (const [name, value] of Object.entries(over ?? {})) {
    if (value === null) delete merged[name]
    else if (typeof value === 'object' && !Array.isArray(value))
      merged[name] = merge(asObject(merged[name]), asObject(value))
    else merged[name] = value
  }
  return merged
}

const LIST_OF: Readonly<Record<ObjectKind, keyof Lists>> = {
  nodes: 'nodes',
  services: 'services',
  endpointslices: 'endpointSlices',
}

interface Served {
  readonly kind: ObjectKind
  readonly key: string
  readonly uid: unknown
  readonly object: Json
  readonly json: string
}

export class ServedObjects {
  readonly #store: ApiStore
  #now: ReadonlyMap<string, Served> = new Map()

  constructor(store: ApiStore) {
    this.#store = store
  }

  /** Deletes objects first, then puts new and changed ones, in the order in which the step applied them. */
  become(lists: Lists, step: Step): void {
    const next = servedOf(lists)
    for (const [id, { kind, key, uid }] of this.#now) if (next.get(id)?.uid !== uid) this.#store.delete(kind, key)
    const changed = [...next].filter(([id, { json }]) => this.#now.get(id)?.json !== json)
    const order = (step.apply ?? []).map(idOf)
    const place = (id: string): number => (order.includes(id) ? order.indexOf(id) : -1)
    changed.sort(([a], [b]) => place(a) - place(b))
    for (const [, { kind, object }] of changed) this.#store.put(kind, object)
    this.#now = next
  }
}

function servedOf(lists: Lists): Map<string, Served> {
  const served = new Map<string, Served>()
  for (const kind of ['nodes', 'services', 'endpointslices'] as const) {
    for (const object of lists[LIST_OF[kind]].items) {
      const { namespace, name, uid } = object.metadata
      const key = kind === 'nodes' ? String(name) : `${String(namespace)}/${String(name)}`
      const id = idOf({ ...object, kind: KIND_NAME[kind] })
      served.set(id, { kind, key, uid, object, json: JSON.stringify(object) })
    }
  }
  return served
}

function idOf(object: Json): string {
  const { namespace, name } = asObject(object['metadata'])
  return `${String(object['kind'])} ${String(namespace ?? '')}/${String(name)}`
}
