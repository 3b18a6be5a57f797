/**
 * The API's messages as Kubernetes 1.36 writes them in protobuf: every field of the objects that
 * this API server has, not only those that the program reads, and written down independently of the
 * program's own numbers, from the same generated.proto files. Gogo's encoder omits an absent field
 * only if it is a pointer or a list in Go; it writes every other field.
 */

/** `field number type`; `*` marks a list, `?` a field that is omitted when absent. */
const TEXT: Readonly<Record<string, string>> = {
  ObjectMeta: `name 1 string, generateName 2 string, namespace 3 string, selfLink 4 string, uid 5 string,
    resourceVersion 6 string, generation 7 int, creationTimestamp 8 Time, deletionTimestamp 9 Time?,
    deletionGracePeriodSeconds 10 int?, labels 11 map, annotations 12 map, ownerReferences 13 OwnerReference*,
    finalizers 14 string*, managedFields 17 ManagedFieldsEntry*`,
  ManagedFieldsEntry: `manager 1 string, operation 2 string, apiVersion 3 string, time 4 Time?, fieldsType 6 string,
    fieldsV1 7 FieldsV1?, subresource 8 string`,
  OwnerReference: `kind 1 string, name 3 string, uid 4 string, apiVersion 5 string, controller 6 bool?,
    blockOwnerDeletion 7 bool?`,
  ListMeta: 'selfLink 1 string, resourceVersion 2 string, continue 3 string, remainingItemCount 4 int?',
  Status: `metadata 1 ListMeta, status 2 string, message 3 string, reason 4 string, details 5 StatusDetails?, code 6 int`,
  StatusDetails: `name 1 string, group 2 string, kind 3 string, causes 4 StatusCause*, retryAfterSeconds 5 int,
    uid 6 string`,
  StatusCause: 'reason 1 string, message 2 string, field 3 string',
  Condition: `type 1 string, status 2 string, observedGeneration 3 int, lastTransitionTime 4 Time, reason 5 string,
    message 6 string`,

  Service: 'metadata 1 ObjectMeta, spec 2 ServiceSpec, status 3 ServiceStatus',
  ServiceList: 'metadata 1 ListMeta, items 2 Service*',
  ServiceSpec: `ports 1 ServicePort*, selector 2 map, clusterIP 3 string, type 4 string, externalIPs 5 string*,
    sessionAffinity 7 string, loadBalancerIP 8 string, loadBalancerSourceRanges 9 string*, externalName 10 string,
    externalTrafficPolicy 11 string, healthCheckNodePort 12 int, publishNotReadyAddresses 13 bool,
    sessionAffinityConfig 14 SessionAffinityConfig?, ipFamilyPolicy 17 string?, clusterIPs 18 string*,
    ipFamilies 19 string*, allocateLoadBalancerNodePorts 20 bool?, loadBalancerClass 21 string?,
    internalTrafficPolicy 22 string?, trafficDistribution 23 string?`,
  ServicePort: `name 1 string, protocol 2 string, port 3 int, targetPort 4 IntOrString, nodePort 5 int,
    appProtocol 6 string?`,
  SessionAffinityConfig: 'clientIP 1 ClientIPConfig?',
  ClientIPConfig: 'timeoutSeconds 1 int?',
  ServiceStatus: 'loadBalancer 1 LoadBalancerStatus, conditions 2 Condition*',
  LoadBalancerStatus: 'ingress 1 LoadBalancerIngress*',
  LoadBalancerIngress: 'ip 1 string, hostname 2 string, ipMode 3 string?, ports 4 PortStatus*',
  PortStatus: 'port 1 int, protocol 2 string, error 3 string?',

  Node: 'metadata 1 ObjectMeta, spec 2 NodeSpec, status 3 NodeStatus',
  NodeList: 'metadata 1 ListMeta, items 2 Node*',
  NodeSpec: `podCIDR 1 string, externalID 2 string, providerID 3 string, unschedulable 4 bool, taints 5 Taint*,
    podCIDRs 7 string*`,
  Taint: 'key 1 string, value 2 string, effect 3 string, timeAdded 4 Time?',
  NodeStatus: `phase 3 string, conditions 4 NodeCondition*, addresses 5 NodeAddress*,
    daemonEndpoints 6 NodeDaemonEndpoints, nodeInfo 7 NodeSystemInfo`,
  NodeCondition: `type 1 string, status 2 string, lastHeartbeatTime 3 Time, lastTransitionTime 4 Time, reason 5 string,
    message 6 string`,
  NodeAddress: 'type 1 string, address 2 string',
  NodeDaemonEndpoints: 'kubeletEndpoint 1 DaemonEndpoint',
  DaemonEndpoint: 'Port 1 int',
  NodeSystemInfo: `machineID 1 string, systemUUID 2 string, bootID 3 string, kernelVersion 4 string, osImage 5 string,
    containerRuntimeVersion 6 string, kubeletVersion 7 string, kubeProxyVersion 8 string, operatingSystem 9 string,
    architecture 10 string`,

  EndpointSlice: 'metadata 1 ObjectMeta, endpoints 2 Endpoint*, ports 3 EndpointPort*, addressType 4 string',
  EndpointSliceList: 'metadata 1 ListMeta, items 2 EndpointSlice*',
  Endpoint: `addresses 1 string*, conditions 2 EndpointConditions, hostname 3 string?, targetRef 4 ObjectReference?,
    deprecatedTopology 5 map, nodeName 6 string?, zone 7 string?, hints 8 EndpointHints?`,
  EndpointConditions: 'ready 1 bool?, serving 2 bool?, terminating 3 bool?',
  EndpointHints: 'forZones 1 ForZone*, forNodes 2 ForNode*',
  ForZone: 'name 1 string',
  ForNode: 'name 1 string',
  EndpointPort: 'name 1 string?, protocol 2 string?, port 3 int?, appProtocol 4 string?',
  ObjectReference: `kind 1 string, namespace 2 string, name 3 string, uid 4 string, apiVersion 5 string,
    resourceVersion 6 string, fieldPath 7 string`,
}

export interface FieldText {
  readonly name: string
  readonly number: number
  /** `string`, `int`, `bool`, `map`, `Time`, `IntOrString`, `FieldsV1` or another message. */
  readonly type: string
  readonly isList: boolean
  readonly isOptional: boolean
}

/** The fields of each message in descending order of their numbers. */
export const MESSAGES: ReadonlyMap<string, readonly FieldText[]> = new Map(
  Object.entries(TEXT).map(([name, text]) => [name, text.split(',').map(parseField).toReversed()]),
)

function parseField(text: string): FieldText {
  const match = /^\s*(\w+) (\d+) (\w+)([*?]?)$/.exec(text)
  if (match === null) throw new Error(`no field: ${text}`)
  const [, name = '', number, type = '', mark] = match
  return { name, number: Number(number), type, isList: mark === '*', isOptional: mark === '?' }
}
