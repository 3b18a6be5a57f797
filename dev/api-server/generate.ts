/**
 * Objects for the bench and for tests, of the size of real ones: with annotations and
 * managedFields. No address repeats, because Services would compete for it.
 */
import type { Json } from './store.ts'

/** First ClusterIP: 10.96.0.10, the range of kubeadm. */
const FIRST_CLUSTER_IP = 0x0a600000 + 10
/** Endpoints are in 10.128.0.0/9. */
const FIRST_ENDPOINT = 0x0a800000
const ENDPOINT_ADDRESSES = 1 << 23

const CREATED = '2026-11-20T16:19:17Z'

export function formatAddress(address: number): string {
  return `${address >>> 24}.${(address >>> 16) & 255}.${(address >>> 8) & 255}.${address & 255}`
}

/** Services spread over namespaces of 100. */
export function namespaceOf(index: number): string {
  return `bench-${Math.floor(index / 100)}`
}

export function serviceName(index: number): string {
  return `service-${index}`
}

export function clusterIpOf(index: number): string {
  return formatAddress(FIRST_CLUSTER_IP + index)
}

/** Address of an endpoint, which differs for each `generation`. */
export function endpointAddress(service: number, endpoint: number, endpointsEach: number, generation: number): string {
  const number = (service * endpointsEach + endpoint + generation * 7_919) % ENDPOINT_ADDRESSES
  return formatAddress(FIRST_ENDPOINT + number)
}

/** One Service: port 80 to 8080. About 1.4 KB as JSON. */
export function makeService(index: number): Json {
  const name = serviceName(index)
  const namespace = namespaceOf(index)
  const spec = { selector: { app: name }, ports: [{ name: 'http', port: 80, targetPort: 8080 }] }
  const applied = JSON.stringify({ apiVersion: 'v1', kind: 'Service', metadata: { name, namespace }, spec })
  return {
    metadata: {
      name,
      namespace,
      uid: uidOf('5e', index),
      creationTimestamp: CREATED,
      labels: { app: name },
      annotations: { 'kubectl.kubernetes.io/last-applied-configuration': `${applied}\n` },
      managedFields: [managed('kubectl-client-side-apply', 'v1', SERVICE_FIELDS)],
    },
    spec: {
      ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080 }],
      selector: { app: name },
      clusterIP: clusterIpOf(index),
      clusterIPs: [clusterIpOf(index)],
      type: 'ClusterIP',
      sessionAffinity: 'None',
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
      internalTrafficPolicy: 'Cluster',
    },
    status: { loadBalancer: {} },
  }
}

/** The slice of a Service. About 2.6 KB as JSON for five endpoints. */
export function makeSlice(index: number, addresses: readonly string[], generation = 1): Json {
  const name = serviceName(index)
  const namespace = namespaceOf(index)
  return {
    metadata: {
      name: `${name}-x7k2p`,
      generateName: `${name}-`,
      namespace,
      uid: uidOf('e5', index),
      generation,
      creationTimestamp: CREATED,
      labels: {
        app: name,
        'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
        'kubernetes.io/service-name': name,
      },
      annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': CREATED },
      ownerReferences: [
        {
          apiVersion: 'v1',
          kind: 'Service',
          name,
          uid: uidOf('5e', index),
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
      managedFields: [managed('kube-controller-manager', 'discovery.k8s.io/v1', SLICE_FIELDS)],
    },
    addressType: 'IPv4',
    endpoints: addresses.map((address, endpoint) => ({
      addresses: [address],
      conditions: { ready: true, serving: true, terminating: false },
      targetRef: {
        kind: 'Pod',
        namespace,
        name: `${name}-6d5f4b7c9d-${String(endpoint).padStart(5, 'a')}`,
        uid: uidOf('b0', index * 100 + endpoint),
      },
      nodeName: `worker-${(index + endpoint) % 100}`,
      zone: `zone-${'abc'[(index + endpoint) % 3]}`,
    })),
    ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
  }
}

/** A Node with one address. */
export function makeNode(name: string, address = '172.18.0.2'): Json {
  return {
    metadata: {
      name,
      uid: uidOf('0d', 1),
      creationTimestamp: CREATED,
      labels: { 'kubernetes.io/hostname': name, 'topology.kubernetes.io/zone': 'zone-a' },
    },
    spec: { podCIDR: '10.244.0.0/24', podCIDRs: ['10.244.0.0/24'] },
    status: {
      addresses: [
        { type: 'InternalIP', address },
        { type: 'Hostname', address: name },
      ],
    },
  }
}

const SERVICE_FIELDS = {
  'f:metadata': {
    'f:annotations': { '.': {}, 'f:kubectl.kubernetes.io/last-applied-configuration': {} },
    'f:labels': { '.': {}, 'f:app': {} },
  },
  'f:spec': {
    'f:internalTrafficPolicy': {},
    'f:ports': {
      '.': {},
      'k:{"port":80,"protocol":"TCP"}': { '.': {}, 'f:name': {}, 'f:port': {}, 'f:protocol': {}, 'f:targetPort': {} },
    },
    'f:selector': {},
    'f:sessionAffinity': {},
    'f:type': {},
  },
}

const SLICE_FIELDS = {
  'f:addressType': {},
  'f:endpoints': {},
  'f:metadata': {
    'f:annotations': { '.': {}, 'f:endpoints.kubernetes.io/last-change-trigger-time': {} },
    'f:generateName': {},
    'f:labels': {
      '.': {},
      'f:app': {},
      'f:endpointslice.kubernetes.io/managed-by': {},
      'f:kubernetes.io/service-name': {},
    },
    'f:ownerReferences': { '.': {} },
  },
  'f:ports': {},
}

function managed(manager: string, apiVersion: string, fieldsV1: object): Json {
  return { manager, operation: 'Update', apiVersion, time: CREATED, fieldsType: 'FieldsV1', fieldsV1 }
}

function uidOf(prefix: string, index: number): string {
  return `${prefix}a9f1c8-94d4-4317-8bc1-${index.toString(16).padStart(12, '0')}`
}
