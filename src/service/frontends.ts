/**
 * Turns one Service into what this node must answer for: a frontend for every address, port and protocol.
 * What could break: everything here depends on the Service, its slices and the fields of the context named in `reads`,
 * and on nothing else; and `sameFrontend` must compare every field that a table renders.
 */
import { familyOf, formatEndpoint } from '../values/address.ts'
import type { Problem } from '../values/errors.ts'
import { IP_FAMILIES, type IpFamily, type Protocol } from '../values/protocol.ts'
import { type Endpoint, endpointsOf, localReadyEndpoints, offersOf } from './endpoints.ts'
import {
  type NodeContext,
  READS_LOCAL_ADDRESSES,
  READS_NODE_IPS,
  READS_NODE_PORT_ADDRESSES,
  READS_VIRTUAL_IPS,
} from './node-context.ts'
import type { EndpointSlice, Service, ServicePort, SliceEndpoint, TrafficPolicy } from './objects.ts'
import { type Firewall, firewallOf, sameFirewall, sourceRangeProblems } from './source-ranges.ts'
import { type PortSelections, type Selection, selectEndpoints, type Verdict } from './topology.ts'
import { permittedAddresses } from './virtual-ips.ts'

/** `10.96.0.1:443/tcp`, IPv6 in brackets: what clients connect to. */
export type FrontendKey = string

export type FrontendKind = 'ClusterIP' | 'ExternalIP' | 'LoadBalancerVip' | 'NodePort'

/** One address, port and protocol that this node answers for. */
export interface Frontend {
  readonly key: FrontendKey
  readonly kind: FrontendKind
  readonly family: IpFamily
  readonly address: string
  /** The Service's port; the node port when kind is NodePort. */
  readonly port: number
  readonly protocol: Protocol
  /** `namespace/name:port`, or `namespace/name` when the port has no name. */
  readonly servicePortName: string
  /** Seconds; 0 when there is no affinity. */
  readonly affinityTimeoutSeconds: number
  /** Whether the address belongs on kube-ipvs0: never a node port's, never an address the node itself has. */
  readonly bind: boolean
  /** The policy that chose the endpoints: internal for a ClusterIP, external for all others. */
  readonly policy: TrafficPolicy
  /** Endpoints in use, sorted by address text and port. One array for all frontends of a port where they are equal. */
  readonly endpoints: readonly Endpoint[]
  /** All endpoints of the port, used or not, and why: `verdicts[i]` is about `candidates[i]`. */
  readonly candidates: readonly Endpoint[]
  readonly verdicts: readonly Verdict[]
  /** Policy Local, nothing usable on this node, but something elsewhere. */
  readonly noLocalEndpoints: boolean
  /**
   * Of a Service with a health check port: distinct addresses of its ready endpoints on this node in this family, over
   * all its ports. 0 for every other Service.
   */
  readonly localReadyEndpoints: number
  /** Who may connect; undefined: everybody. Only a LoadBalancerVip has one. */
  readonly firewall: Firewall | undefined
  /** The Service as it was when this was made: health check port and the like are read from here. */
  readonly service: Service
}

/** All that one Service wants of this node. */
export interface Contribution {
  readonly frontends: ReadonlyMap<FrontendKey, Frontend>
  readonly problems: readonly Problem[]
  /** READS_* bits of the context's fields that took part. */
  readonly reads: number
}

/** Among the frontends of one Service at one key the first kind of this order stays. */
const KIND_ORDER: Readonly<Record<FrontendKind, number>> = {
  ClusterIP: 0,
  ExternalIP: 1,
  LoadBalancerVip: 2,
  NodePort: 3,
}

/** `10.96.0.1:443/tcp` */
export function frontendKey(address: string, port: number, protocol: Protocol): FrontendKey {
  return `${formatEndpoint(address, port)}/${protocol}`
}

/** `namespace/name:port`, or `namespace/name` when the port has no name (Kubernetes' ServicePortName). */
export function servicePortName(service: Service, port: ServicePort): string {
  return `${service.namespace}/${service.name}${port.name === '' ? '' : `:${port.name}`}`
}

const EXTERNAL_IPS = 'spec.externalIPs'
const LOAD_BALANCER = 'status.loadBalancer.ingress'

/** The frontends of a Service. `slices` are that Service's own, in any order. */
export function contributionOf(service: Service, slices: readonly EndpointSlice[], node: NodeContext): Contribution {
  const offers = offersOf(slices)
  const found = new Map<FrontendKey, Frontend>()
  const problems: Problem[] = []
  let reads = READS_LOCAL_ADDRESSES
  const permitted = (field: string, addresses: readonly string[]): readonly string[] =>
    permittedAddresses(service, field, addresses, node, problems)
  const allExternalIps = permitted(EXTERNAL_IPS, service.externalIps)
  const allVips = permitted(LOAD_BALANCER, service.loadBalancerVips)
  if (node.virtualIps !== undefined && service.externalIps.length + service.loadBalancerVips.length > 0)
    reads |= READS_VIRTUAL_IPS | READS_NODE_IPS
  for (const family of IP_FAMILIES) {
    const clusterIp = service.clusterIps[family]
    if (clusterIp === undefined) continue
    const ofFamily = (address: string): boolean => familyOf(address) === family
    const externalIps = allExternalIps.filter(ofFamily)
    const vips = allVips.filter(ofFamily)
    const localReady = service.healthCheckNodePort === 0 ? 0 : localReadyEndpoints(offers, family, node.nodeName)
    const firewall = vips.length === 0 ? undefined : firewallOf(service, family, node.nodeIps)
    if (firewall !== undefined) reads |= READS_NODE_IPS
    for (const port of service.ports) {
      const candidates = endpointsOf(offers, family, port.protocol, port.name, node.nodeName)
      const chosen = selectEndpoints(service.internalTrafficPolicy, service.externalTrafficPolicy, candidates, node)
      const nodeAddresses = port.nodePort === 0 ? [] : node.nodePortAddresses[family]
      if (port.nodePort !== 0) reads |= READS_NODE_PORT_ADDRESSES
      const external = externalIps.length + vips.length + nodeAddresses.length > 0
      reads |= chosen.internal.reads | (external ? chosen.external.reads : 0)
      const name = servicePortName(service, port)
      const shared = { service, port, family, candidates, chosen, localReady, firewall, name }
      place(found, problems, makeFrontend(shared, 'ClusterIP', clusterIp, node))
      for (const address of externalIps) place(found, problems, makeFrontend(shared, 'ExternalIP', address, node))
      for (const address of vips) place(found, problems, makeFrontend(shared, 'LoadBalancerVip', address, node))
      for (const address of nodeAddresses) place(found, problems, makeFrontend(shared, 'NodePort', address, node))
    }
  }
  reportOtherFamilies(service, problems)
  if (service.sourceRanges.length > 0) problems.push(...sourceRangeProblems(service))
  return { frontends: found, problems, reads }
}

/** What all frontends of one Service port and family have in common. */
interface PortParts {
  readonly service: Service
  readonly port: ServicePort
  readonly family: IpFamily
  readonly candidates: readonly Endpoint[]
  readonly chosen: PortSelections
  readonly localReady: number
  readonly firewall: Firewall | undefined
  readonly name: string
}

function makeFrontend(parts: PortParts, kind: FrontendKind, address: string, node: NodeContext): Frontend {
  const { service, port, family, candidates, name } = parts
  const selection: Selection = kind === 'ClusterIP' ? parts.chosen.internal : parts.chosen.external
  const number = kind === 'NodePort' ? port.nodePort : port.port
  return {
    key: frontendKey(address, number, port.protocol),
    kind,
    family,
    address,
    port: number,
    protocol: port.protocol,
    servicePortName: name,
    affinityTimeoutSeconds: service.affinityTimeoutSeconds,
    bind: kind !== 'NodePort' && !node.localAddresses.has(address),
    policy: kind === 'ClusterIP' ? service.internalTrafficPolicy : service.externalTrafficPolicy,
    endpoints: selection.endpoints,
    candidates,
    verdicts: selection.verdicts,
    noLocalEndpoints: selection.noLocalEndpoints,
    localReadyEndpoints: parts.localReady,
    firewall: kind === 'LoadBalancerVip' ? parts.firewall : undefined,
    service,
  }
}

/** Keeps one frontend a key. Two ports of the Service that meet at one are reported; one address listed twice is not. */
function place(found: Map<FrontendKey, Frontend>, problems: Problem[], frontend: Frontend): void {
  const before = found.get(frontend.key)
  const replaces = before === undefined || KIND_ORDER[frontend.kind] < KIND_ORDER[before.kind]
  if (before !== undefined && before.servicePortName !== frontend.servicePortName) {
    const [winner, loser] = replaces ? [frontend, before] : [before, frontend]
    const { namespace, name } = frontend.service
    problems.push({
      code: 'frontend-conflict',
      subject: `service ${namespace}/${name}`,
      field: 'spec.ports',
      message: `${loser.servicePortName} (${loser.kind}) and ${winner.servicePortName} (${winner.kind}) both want ${frontend.key}; the latter has it`,
    })
  }
  if (replaces) found.set(frontend.key, frontend)
}

/** An address of a family in which the Service has no cluster IP is not proxied, as in kube-proxy. */
function reportOtherFamilies(service: Service, problems: Problem[]): void {
  const report = (field: string, addresses: readonly string[]): void => {
    for (const address of addresses) {
      const family = familyOf(address)
      if (service.clusterIps[family] !== undefined) continue
      const message = `${address} is left out: the Service has no ${family} cluster IP`
      problems.push({ code: 'address-family', subject: `service ${service.namespace}/${service.name}`, field, message })
    }
  }
  report(EXTERNAL_IPS, service.externalIps)
  report(LOAD_BALANCER, service.loadBalancerVips)
}

function sameEndpoints(a: readonly Endpoint[], b: readonly Endpoint[]): boolean {
  if (a === b) return true
  if (a.length !== b.length) return false
  for (let index = 0; index < a.length; index++) {
    if (a[index]?.address !== b[index]?.address || a[index]?.port !== b[index]?.port) return false
  }
  return true
}

/**
 * Whether the endpoints of a port, used or not, are the same and in the same state: hairpin traffic depends on the node, UDP
 * flows end when an endpoint no longer serves, and iptables mode selects among all of them once more.
 */
function sameCandidates(a: readonly Endpoint[], b: readonly Endpoint[]): boolean {
  if (!sameEndpoints(a, b)) return false
  return a.every(({ source }, index) => sameSource(source, b[index]?.source))
}

function sameSource(a: SliceEndpoint, b: SliceEndpoint | undefined): boolean {
  return (
    a === b ||
    (b !== undefined &&
      a.nodeName === b.nodeName &&
      a.serving === b.serving &&
      a.ready === b.ready &&
      a.terminating === b.terminating &&
      a.zoneHints?.join() === b.zoneHints?.join() &&
      a.nodeHints?.join() === b.nodeHints?.join())
  )
}

/**
 * Whether two frontends of one key come to the same in every table and health check. Verdicts only explain, so they do not
 * count; a table that renders more of a frontend than is compared here needs it added.
 */
export function sameFrontend(a: Frontend, b: Frontend): boolean {
  return (
    a === b ||
    (a.key === b.key &&
      a.kind === b.kind &&
      a.localReadyEndpoints === b.localReadyEndpoints &&
      a.service.healthCheckNodePort === b.service.healthCheckNodePort &&
      a.servicePortName === b.servicePortName &&
      a.affinityTimeoutSeconds === b.affinityTimeoutSeconds &&
      a.bind === b.bind &&
      a.policy === b.policy &&
      sameEndpoints(a.endpoints, b.endpoints) &&
      sameCandidates(a.candidates, b.candidates) &&
      sameFirewall(a.firewall, b.firewall))
  )
}
