/**
 * Which objects this proxy asks for: as selectors for the API server, and as the same rules for a manifest.
 * What could break: the two label rules are not combined. A Service labelled headless that has a cluster IP is proxied,
 * and a slice with another proxy's name is used: so does kube-proxy 1.36.
 */
import type { ObjectKind } from '../../service/objects.ts'
import { isObject } from '../objects/findings.ts'
import type { Metadata } from '../objects/metadata.ts'

/** LabelServiceProxyName of the service proxy's well-known labels: another proxy serves this Service. */
const LABEL_PROXY_NAME = 'service.kubernetes.io/service-proxy-name'
/** IsHeadlessService: set by the slice controllers on slices of headless Services. */
const LABEL_HEADLESS = 'service.kubernetes.io/headless'

/** The part of a list or watch request that names objects. */
export interface Selection {
  /** Path of the collection over all namespaces. */
  readonly path: string
  readonly labelSelector?: string
  readonly fieldSelector?: string
}

/** Which objects of a kind to ask the API server for. */
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

/** Whether an object in a manifest is one that the API server would have sent for `selectionOf`. */
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
