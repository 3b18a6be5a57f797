/**
 * Our parsed Services, EndpointSlices and Nodes for tests. All tests make them here, so a new field
 * is added here alone. A field that a test does not give has the value that our parsers give it
 * when the object lacks it: nothing, or its Kubernetes default. Only the names, the cluster IP and
 * the ports are made up.
 */
import type {
  EndpointSlice,
  Node,
  Service,
  ServicePortSpec,
  SliceEndpoint,
  SlicePort,
} from '../../src/service/objects.ts'

/** Service demo/web with the cluster IP 10.96.0.1 and port 80/tcp, which is named http, with these fields changed. */
export function service(change: Partial<Service> = {}): Service {
  return {
    namespace: 'demo',
    name: 'web',
    createdAtMs: 0,
    clusterIps: { IPv4: '10.96.0.1' },
    ports: [servicePort({ name: 'http', port: 80 })],
    externalIps: [],
    loadBalancerVips: [],
    sourceRanges: [],
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: 'Cluster',
    affinityTimeoutSeconds: 0,
    annotations: '',
    healthCheckNodePort: 0,
    ...change,
  }
}

/** A port of a Service: TCP, without a name and without a node port unless they are given. */
export function servicePort(fields: Pick<ServicePortSpec, 'port'> & Partial<ServicePortSpec>): ServicePortSpec {
  return { name: '', protocol: 'tcp', nodePort: 0, ...fields }
}

/**
 * IPv4 slice demo/web-1 of Service web with the port 8080/tcp, which is named http, and without
 * endpoints, with these fields changed. A slice of another Service is named after that one.
 */
export function slice(change: Partial<EndpointSlice> = {}): EndpointSlice {
  const { serviceName = 'web' } = change
  return {
    namespace: 'demo',
    name: `${serviceName}-1`,
    serviceName,
    family: 'IPv4',
    triggeredAtMs: 0,
    ports: [slicePort({ name: 'http', port: 8080 })],
    endpoints: [],
    ...change,
  }
}

/** A port of a slice: TCP and without a name unless they are given. */
export function slicePort(fields: Pick<SlicePort, 'port'> & Partial<SlicePort>): SlicePort {
  return { name: '', protocol: 'tcp', ...fields }
}

/**
 * An endpoint of a slice that is ready, serves, does not terminate, and is on no known node unless
 * fields say otherwise.
 */
export function endpoint(fields: Pick<SliceEndpoint, 'address'> & Partial<SliceEndpoint>): SliceEndpoint {
  return { ready: true, serving: true, terminating: false, nodeName: '', ...fields }
}

/** Node node0 without zone, addresses, pod CIDRs, taints and labels, with these fields changed. */
export function node(change: Partial<Node> = {}): Node {
  return { name: 'node0', zone: '', addresses: [], podCidrs: [], taintKeys: [], deleting: false, ...change }
}
