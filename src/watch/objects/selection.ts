/**
 * Which objects this proxy reads: as selectors for the API server, and as the same rules for a
 * manifest. As in kube-proxy 1.37 each label rule is for one kind: a Service labelled headless that
 * has a cluster IP is proxied, and a slice with the label of another proxy is used.
 */
import type { ObjectKind } from '../../service/objects.ts'
import { isObject, type Metadata } from './findings.ts'

/** LabelServiceProxyName of core/v1: another proxy serves this Service. */
const LABEL_PROXY_NAME = 'service.kubernetes.io/service-proxy-name'
/** IsHeadlessService of core/v1: the slice controllers set it on slices of headless Services. */
const LABEL_HEADLESS = 'service.kubernetes.io/headless'

/** The part of a list or watch request that names objects. */
export interface Selection {
  /** Path of the collection over all namespaces. */
  readonly path: string
  readonly labelSelector?: string
  readonly fieldSelector?: string
}

/** The objects of a kind to request from the API server. */
export function selectionOf(kind: ObjectKind, nodeName: string): Selection {
  switch (kind) {
    case 'services':
      return {
        path: '/api/v1/services',
        labelSelector: `!${LABEL_PROXY_NAME}`,
        fieldSelector: 'spec.clusterIP!=None',
      }
    case 'endpointslices':
      return { path: '/apis/discovery.k8s.io/v1/endpointslices', labelSelector: `!${LABEL_HEADLESS}` }
    case 'nodes':
      return { path: '/api/v1/nodes', fieldSelector: `metadata.name=${nodeName}` }
  }
}

/** All Nodes, for their labels. */
export const ALL_NODES: Selection = { path: '/api/v1/nodes' }

/** Whether the API server would send this object of a manifest for `selectionOf`. */
export function isSelected(kind: ObjectKind, metadata: Metadata, json: unknown, nodeName: string): boolean {
  switch (kind) {
    case 'services': {
      if (Object.hasOwn(metadata.labels, LABEL_PROXY_NAME)) return false
      const spec = isObject(json) ? json['spec'] : undefined
      return !isObject(spec) || spec['clusterIP'] !== 'None'
    }
    case 'endpointslices':
      return !Object.hasOwn(metadata.labels, LABEL_HEADLESS)
    case 'nodes':
      return metadata.name === nodeName
  }
}
