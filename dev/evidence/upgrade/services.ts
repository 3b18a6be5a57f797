/**
 * The objects of the cluster of these nodes: one Service that is asked, one that changes, and
 * others.
 */
import { makeNode, makeService, makeSlice } from '../../api-server/generate.ts'
import type { ApiStore, Json } from '../../api-server/store.ts'
import type { TrafficPlace } from '../../bench/traffic-client.ts'
import { nodeAddress, podAddresses } from './network.ts'

const ASKED = 0
const FOLLOWER = 1
const BACKGROUND = 50
const CLUSTER_IPS = ['10.96.200.1', '10.96.200.2'] as const
const BALANCER = '203.0.113.10'
const NODE_PORT = 30_080
const PORT = 80
export const FOLLOWED: TrafficPlace = { address: CLUSTER_IPS[FOLLOWER], port: PORT }

export const nodeName = (node: number): string => `node-${node}`

/**
 * Every way to the Service that is asked: ClusterIP, load balancer, and the node port of each node.
 */
export function frontends(nodes: number): readonly TrafficPlace[] {
  const ofNodes = Array.from({ length: nodes }, (_, node) => ({ address: nodeAddress(node), port: NODE_PORT }))
  return [{ address: CLUSTER_IPS[ASKED], port: PORT }, { address: BALANCER, port: PORT }, ...ofNodes]
}

/** All but the slice of the Service that changes. */
export function putObjects(store: ApiStore, nodes: number): void {
  const pods = Array.from({ length: nodes }, (_, node) => podAddresses(node))
  pods.forEach((_, node) => store.put('nodes', makeNode(nodeName(node), nodeAddress(node))))
  store.put('services', askedService())
  store.put('endpointslices', makeSlice(ASKED, pods.flat()))
  store.put('services', withSpec(FOLLOWER, { clusterIP: FOLLOWED.address, clusterIPs: [FOLLOWED.address] }))
  for (let index = FOLLOWER + 1; index <= FOLLOWER + BACKGROUND; index++) {
    store.put('services', makeService(index))
    store.put('endpointslices', makeSlice(index, [`10.245.0.${index}`, `10.245.1.${index}`]))
  }
}

/** Gives the Service that changes an endpoint, or takes it away. */
export function putEndpoint(store: ApiStore, isThere: boolean): void {
  store.put('endpointslices', makeSlice(FOLLOWER, isThere ? podAddresses(0).slice(0, 1) : []))
}

function askedService(): Json {
  const [address] = CLUSTER_IPS
  const ports = [{ name: 'http', protocol: 'TCP', port: PORT, targetPort: 8080, nodePort: NODE_PORT }]
  const more = {
    type: 'LoadBalancer',
    clusterIP: address,
    clusterIPs: [address],
    ports,
    externalTrafficPolicy: 'Cluster',
  }
  return { ...withSpec(ASKED, more), status: { loadBalancer: { ingress: [{ ip: BALANCER, ipMode: 'VIP' }] } } }
}

function withSpec(index: number, more: Json): Json {
  const { spec, ...service } = makeService(index)
  return { ...service, spec: { ...(spec as Json), ...more } } // made there
}
