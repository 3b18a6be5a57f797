/** Which objects the path of a list or watch names: a kind, in one namespace or in all. */
import type { ObjectKind } from '../../src/service/objects.ts'

const KINDS: Readonly<Record<string, ObjectKind>> = {
  '/api/v1/services': 'services',
  '/api/v1/nodes': 'nodes',
  '/apis/discovery.k8s.io/v1/endpointslices': 'endpointslices',
}
const NAMESPACED = /^(\/.+)\/namespaces\/([^/]+)(\/[^/]+)$/

export interface Collection {
  readonly kind: ObjectKind | undefined
  /** '' for all namespaces. */
  readonly namespace: string
}

export function collectionOf(path: string): Collection {
  const [, before = '', namespace = '', after = ''] = NAMESPACED.exec(path) ?? []
  return { kind: KINDS[namespace === '' ? path : before + after], namespace }
}
