/**
 * The cluster of the soak: Services whose state is a few numbers, 0 for the start state, and the
 * objects of the API server that such a state makes.
 */
import {
  clusterIpOf,
  endpointAddress,
  formatAddress,
  makeNode,
  makeService,
  makeSlice,
  namespaceOf,
  serviceName,
} from '../../api-server/generate.ts'
import { type ApiStore, asObject, type Json } from '../../api-server/store.ts'

/** Services of the start state; higher numbers come and go. */
export const SERVICES = 1_000
const ENDPOINTS = 5
/** Every tenth Service is of type LoadBalancer, another tenth of type NodePort, a third has session affinity. */
const KIND_EVERY = 10
const FIRST_NODE_PORT = 30_000
/** 203.0.0.0 */
const FIRST_BALANCER = 0xcb00_0000

/** A Service that exists. Numbers other than 0 never come again, so that nothing can be known from before. */
export interface ServiceState {
  /** Another one has another uid. */
  readonly life: number
  readonly endpoints: number
  readonly annotation: number
  /** Source ranges, of the LoadBalancers. */
  readonly ranges: number
}
export const START: ServiceState = { life: 0, endpoints: 0, annotation: 0, ranges: 0 }

/** Whether a Service has source ranges. */
export const hasRanges = (service: number): boolean => service % KIND_EVERY === 0

/** The first one is an invalid value, which the program reports and ignores. */
const ANNOTATIONS: readonly Readonly<Record<string, string>>[] = [
  { scheduler: 'none-such' },
  { scheduler: 'wlc' },
  { scheduler: 'sh', 'scheduler-flags': 'port' },
  { scheduler: 'wrr', weights: 'same-zone=10,other=1' },
  { 'max-connections': '500' },
  { 'slow-start': '5s' },
  { 'drain-deadline': '30s' },
  { 'outlier-detection': 'true' },
]

const keyOfService = (service: number): string => `${namespaceOf(service)}/${serviceName(service)}`
const keyOfSlice = (service: number): string => `${keyOfService(service)}-x7k2p`

function serviceObject(service: number, { life, annotation, ranges }: ServiceState): Json {
  const object = makeService(service)
  const metadata = asObject(object['metadata'])
  const chosen = annotation === 0 ? {} : ANNOTATIONS[annotation % ANNOTATIONS.length]
  const annotations = Object.entries(chosen ?? {}).map(([name, value]) => [`kube-ipvs.io/${name}`, value])
  return {
    ...object,
    metadata: {
      ...metadata,
      uid: `${String(metadata['uid'])}-${life}`,
      annotations: { ...asObject(metadata['annotations']), ...Object.fromEntries(annotations) },
    },
    ...kindOf(service, asObject(object['spec']), ranges),
  }
}

/** Type, ports and addresses. Services that come and go have no node ports, so that these do not run out. */
function kindOf(service: number, spec: Json, ranges: number): Json {
  const nodePort = service < SERVICES ? { nodePort: FIRST_NODE_PORT + service } : {}
  const ports = [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080, ...nodePort }]
  switch (service % KIND_EVERY) {
    case 0: {
      const ip = formatAddress(FIRST_BALANCER + service)
      const loadBalancerSourceRanges = rangesOf(ranges)
      return {
        spec: {
          ...spec,
          type: 'LoadBalancer',
          ports,
          loadBalancerSourceRanges,
          externalTrafficPolicy: 'Cluster',
          allocateLoadBalancerNodePorts: service < SERVICES,
        },
        status: { loadBalancer: { ingress: [{ ip, ipMode: 'VIP' }] } },
      }
    }
    case 1:
      return service < SERVICES
        ? { spec: { ...spec, type: 'NodePort', ports, externalTrafficPolicy: 'Cluster' } }
        : { spec }
    case 2: {
      const sessionAffinityConfig = { clientIP: { timeoutSeconds: 10_800 } }
      return { spec: { ...spec, sessionAffinity: 'ClientIP', sessionAffinityConfig } }
    }
    default:
      return { spec }
  }
}

function rangesOf(ranges: number): string[] {
  return Array.from({ length: 1 + (ranges % 4) }, (_, index) => `10.${(ranges * 7 + index) & 127}.0.0/16`)
}

/** Of a state other than 0 one to five addresses are new, and sometimes there are more. */
function addressesOf(service: number, endpoints: number): string[] {
  const changed = endpoints === 0 ? 0 : 1 + (endpoints % ENDPOINTS)
  const count = endpoints % 6 === 1 ? ENDPOINTS + 3 : ENDPOINTS
  return Array.from({ length: count }, (_, index) =>
    endpointAddress(service, index, ENDPOINTS + 3, index < changed || index >= ENDPOINTS ? endpoints : 0),
  )
}

function sliceObject(service: number, { life, endpoints }: ServiceState): Json {
  const object = makeSlice(service, addressesOf(service, endpoints), endpoints + 1)
  const metadata = asObject(object['metadata'])
  return { ...object, metadata: { ...metadata, uid: `${String(metadata['uid'])}-${life}` } }
}

/** Writes what differs between two states of a Service; undefined where it is not there. */
export function writeService(
  store: ApiStore,
  service: number,
  from: ServiceState | undefined,
  to: ServiceState | undefined,
): void {
  if (to === undefined) {
    if (from === undefined) return
    store.delete('services', keyOfService(service))
    store.delete('endpointslices', keyOfSlice(service))
    return
  }
  if (from === undefined || from.annotation !== to.annotation || from.ranges !== to.ranges)
    store.put('services', serviceObject(service, to))
  if (from === undefined || from.endpoints !== to.endpoints) store.put('endpointslices', sliceObject(service, to))
}

/** Writes the start state. */
export function writeStart(store: ApiStore): void {
  for (let service = 0; service < SERVICES; service++) writeService(store, service, undefined, START)
}

/** The Node; its zone decides weights. */
export function nodeObject(name: string, zone: number): Json {
  const node = makeNode(name)
  const metadata = asObject(node['metadata'])
  const labels = {
    ...asObject(metadata['labels']),
    'topology.kubernetes.io/zone': `zone-${zone % 2 === 0 ? 'a' : 'b'}`,
  }
  return { ...node, metadata: { ...metadata, labels } }
}

/** The virtual server of the ClusterIP and the first real server that this state adds. */
export const probeOf = (
  service: number,
  endpoints: number,
): { readonly address: string; readonly endpoint: string } => ({
  address: clusterIpOf(service),
  endpoint: `${addressesOf(service, endpoints)[0]}:8080`,
})
