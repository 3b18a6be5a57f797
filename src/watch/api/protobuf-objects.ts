/**
 * The protobuf messages of the API: of each kind the fields that a parser reads. The field numbers
 * are those of Kubernetes' generated.proto files (1.37). A field that a parser reads and that is
 * missing here would be absent in protobuf only; a test compares both encodings of whole objects.
 */
import { type Message, message } from './protobuf-message.ts'
import { LABEL_ZONE } from '../objects/node-parser.ts'
import { INITIAL_EVENTS_END } from '../objects/object-parser.ts'
import { SERVICE_ANNOTATION } from '../../values/well-known.ts'
import { LABEL_SERVICE_NAME, LAST_CHANGE_TRIGGER_TIME } from '../objects/slice-parser.ts'

// apimachinery/pkg/runtime
const TYPE_META = message({ apiVersion: [1, 'word'], kind: [2, 'word'] }, (v) => ({
  apiVersion: v[0],
  kind: v[1],
}))
/** The envelope of every object. */
export const UNKNOWN = message({ typeMeta: [1, TYPE_META], raw: [2, 'span'], contentEncoding: [3, 'word'] }, (v) => ({
  typeMeta: v[0],
  raw: v[1],
  contentEncoding: v[2],
}))
const RAW_EXTENSION = message({ raw: [1, 'span'] }, (v) => ({ raw: v[0] }))

// apimachinery/pkg/apis/meta/v1
export const WATCH_EVENT = message({ type: [1, 'word'], object: [2, RAW_EXTENSION] }, (v) => ({
  type: v[0],
  object: v[1],
}))
const NAMES = { name: [1, 'text'], namespace: [3, 'word'], resourceVersion: [6, 'text'] } as const
const LIST_META = message({ resourceVersion: [2, 'text'], continue: [3, 'text'] }, (v) => ({
  resourceVersion: v[0],
  continue: v[1],
}))
const STATUS_DETAILS = message({ retryAfterSeconds: [5, 'int'] }, (v) => ({ retryAfterSeconds: v[0] }))
const STATUS = message(
  { message: [3, 'text'], reason: [4, 'text'], details: [5, STATUS_DETAILS], code: [6, 'int'] },
  (v) => ({ message: v[0], reason: v[1], details: v[2], code: v[3] }),
)
const BOOKMARK_META = message(
  { resourceVersion: [6, 'text'], annotations: [12, { keys: [INITIAL_EVENTS_END] }] },
  (v) => ({ resourceVersion: v[0], annotations: v[1] }),
)
/** The fields that are read of the object in a BOOKMARK event, for every kind. */
export const BOOKMARK = message({ metadata: [1, BOOKMARK_META] }, (v) => ({ metadata: v[0] }))

// api/core/v1: Service
const SERVICE_META = message(
  { ...NAMES, creationTimestamp: [8, 'time'], annotations: [12, { keys: Object.values(SERVICE_ANNOTATION) }] },
  (v) => ({ name: v[0], namespace: v[1], resourceVersion: v[2], creationTimestamp: v[3], annotations: v[4] }),
)
const SERVICE_PORT = message(
  { name: [1, 'word'], protocol: [2, 'word'], port: [3, 'int'], nodePort: [5, 'int'] },
  (v) => ({ name: v[0], protocol: v[1], port: v[2], nodePort: v[3] }),
)
const CLIENT_IP_CONFIG = message({ timeoutSeconds: [1, 'int'] }, (v) => ({ timeoutSeconds: v[0] }))
const SESSION_AFFINITY_CONFIG = message({ clientIP: [1, CLIENT_IP_CONFIG] }, (v) => ({ clientIP: v[0] }))
const SERVICE_SPEC = message(
  {
    ports: [1, SERVICE_PORT, 'repeated'],
    // A word, because clusterIPs repeats it.
    clusterIP: [3, 'word'],
    type: [4, 'word'],
    externalIPs: [5, 'text', 'repeated'],
    sessionAffinity: [7, 'word'],
    loadBalancerSourceRanges: [9, 'text', 'repeated'],
    externalTrafficPolicy: [11, 'word'],
    healthCheckNodePort: [12, 'int'],
    sessionAffinityConfig: [14, SESSION_AFFINITY_CONFIG],
    clusterIPs: [18, 'word', 'repeated'],
    internalTrafficPolicy: [22, 'word'],
  },
  (v) => ({
    ports: v[0],
    clusterIP: v[1],
    type: v[2],
    externalIPs: v[3],
    sessionAffinity: v[4],
    loadBalancerSourceRanges: v[5],
    externalTrafficPolicy: v[6],
    healthCheckNodePort: v[7],
    sessionAffinityConfig: v[8],
    clusterIPs: v[9],
    internalTrafficPolicy: v[10],
  }),
)
const INGRESS = message({ ip: [1, 'text'], ipMode: [3, 'word'] }, (v) => ({ ip: v[0], ipMode: v[1] }))
const LOAD_BALANCER = message({ ingress: [1, INGRESS, 'repeated'] }, (v) => ({ ingress: v[0] }))
const SERVICE_STATUS = message({ loadBalancer: [1, LOAD_BALANCER] }, (v) => ({ loadBalancer: v[0] }))
const SERVICE = message({ metadata: [1, SERVICE_META], spec: [2, SERVICE_SPEC], status: [3, SERVICE_STATUS] }, (v) => ({
  metadata: v[0],
  spec: v[1],
  status: v[2],
}))

// api/core/v1: Node
const NODE_META = message({ ...NAMES, deletionTimestamp: [9, 'time'], labels: [11, { keys: [LABEL_ZONE] }] }, (v) => ({
  name: v[0],
  namespace: v[1],
  resourceVersion: v[2],
  deletionTimestamp: v[3],
  labels: v[4],
}))
const TAINT = message({ key: [1, 'text'] }, (v) => ({ key: v[0] }))
const NODE_SPEC = message(
  { podCIDR: [1, 'text'], taints: [5, TAINT, 'repeated'], podCIDRs: [7, 'text', 'repeated'] },
  (v) => ({ podCIDR: v[0], taints: v[1], podCIDRs: v[2] }),
)
const NODE_ADDRESS = message({ type: [1, 'text'], address: [2, 'text'] }, (v) => ({ type: v[0], address: v[1] }))
const NODE_STATUS = message({ addresses: [5, NODE_ADDRESS, 'repeated'] }, (v) => ({ addresses: v[0] }))
const NODE = message({ metadata: [1, NODE_META], spec: [2, NODE_SPEC], status: [3, NODE_STATUS] }, (v) => ({
  metadata: v[0],
  spec: v[1],
  status: v[2],
}))

// api/discovery/v1
const SLICE_META = message(
  {
    ...NAMES,
    labels: [11, { keys: [LABEL_SERVICE_NAME] }],
    annotations: [12, { keys: [LAST_CHANGE_TRIGGER_TIME] }],
  },
  (v) => ({ name: v[0], namespace: v[1], resourceVersion: v[2], labels: v[3], annotations: v[4] }),
)
const CONDITIONS = message({ ready: [1, 'bool'], serving: [2, 'bool'], terminating: [3, 'bool'] }, (v) => ({
  ready: v[0],
  serving: v[1],
  terminating: v[2],
}))
const HINT = message({ name: [1, 'word'] }, (v) => ({ name: v[0] }))
const HINTS = message({ forZones: [1, HINT, 'repeated'], forNodes: [2, HINT, 'repeated'] }, (v) => ({
  forZones: v[0],
  forNodes: v[1],
}))
const ENDPOINT = message(
  {
    // Addresses after the first one mean nothing to a proxy (EndpointSlice API), and a slice may have 100,000.
    addresses: [1, 'text', 'first'],
    conditions: [2, CONDITIONS],
    nodeName: [6, 'word'],
    zone: [7, 'word'],
    hints: [8, HINTS],
  },
  (v) => ({ addresses: v[0], conditions: v[1], nodeName: v[2], zone: v[3], hints: v[4] }),
)
const ENDPOINT_PORT = message({ name: [1, 'word'], protocol: [2, 'word'], port: [3, 'int'] }, (v) => ({
  name: v[0],
  protocol: v[1],
  port: v[2],
}))
const ENDPOINT_SLICE = message(
  {
    metadata: [1, SLICE_META],
    endpoints: [2, ENDPOINT, 'repeated'],
    ports: [3, ENDPOINT_PORT, 'repeated'],
    addressType: [4, 'word'],
  },
  (v) => ({ metadata: v[0], endpoints: v[1], ports: v[2], addressType: v[3] }),
)

function listOf(item: Message): Message {
  return message({ metadata: [1, LIST_META], items: [2, item, 'repeated'] }, (v) => ({ metadata: v[0], items: v[1] }))
}

/** The message of an object, by `kind` and `apiVersion` in its envelope. */
export const MESSAGES: ReadonlyMap<string, { readonly apiVersion: string; readonly message: Message }> = new Map([
  ['Service', { apiVersion: 'v1', message: SERVICE }],
  ['ServiceList', { apiVersion: 'v1', message: listOf(SERVICE) }],
  ['EndpointSlice', { apiVersion: 'discovery.k8s.io/v1', message: ENDPOINT_SLICE }],
  ['EndpointSliceList', { apiVersion: 'discovery.k8s.io/v1', message: listOf(ENDPOINT_SLICE) }],
  ['Node', { apiVersion: 'v1', message: NODE }],
  ['NodeList', { apiVersion: 'v1', message: listOf(NODE) }],
  ['Status', { apiVersion: 'v1', message: STATUS }],
])
