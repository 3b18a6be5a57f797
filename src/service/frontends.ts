/**
 * What this node must answer for, one frontend for each address, port and protocol. `contribution.ts` makes them.
 * `sameFrontend` compares every field that a table renders: a table that renders more needs it added there.
 */
import { sameList } from '../values/lists.ts'
import { familyOf, formatEndpoint, parseEndpoint } from '../values/address.ts'
import type { IpFamily, Protocol } from '../values/protocol.ts'
import type { Endpoint } from './endpoints.ts'
import type { Service, ServicePort, SliceEndpoint, TrafficPolicy } from './objects.ts'
import { type Firewall, sameFirewall } from './source-ranges.ts'
import type { Verdict } from './topology.ts'

/** `10.96.0.1:443/tcp`, IPv6 in brackets: what clients connect to. */
export type FrontendKey = string

/** What an address can be to its Service, in the order in which a frontend names its roles. */
export const FRONTEND_ROLES = ['ClusterIP', 'NodePort', 'LoadBalancerVip', 'ExternalIP'] as const
export type FrontendRole = (typeof FRONTEND_ROLES)[number]

/** One address, port and protocol that this node answers for. */
export interface Frontend {
  readonly key: FrontendKey
  /**
   * Everything the address is to the Service port, at least one role, in the order of FRONTEND_ROLES: an address that is in
   * `status.loadBalancer.ingress` and in `spec.externalIPs` is both, as in kube-proxy.
   */
  readonly roles: readonly FrontendRole[]
  readonly family: IpFamily
  readonly address: string
  /** The Service's port; the node port when the address is nothing but a node port's. */
  readonly port: number
  readonly protocol: Protocol
  /** `namespace/name:port`, or `namespace/name` when the port has no name. */
  readonly servicePortName: string
  /** Seconds; 0 when there is no affinity. */
  readonly affinityTimeoutSeconds: number
  /** Whether the address belongs on kube-ipvs0: not for a node port alone, and never an address that the node itself has. */
  readonly bind: boolean
  /** The policy that chose the endpoints: internal for what is only a ClusterIP, external for all others. */
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

/** `10.96.0.1:443/tcp` */
export function frontendKey(address: string, port: number, protocol: Protocol): FrontendKey {
  return `${formatEndpoint(address, port)}/${protocol}`
}

/** What a key made by `frontendKey` was made from. */
export function parseFrontendKey(key: FrontendKey): Pick<Frontend, 'family' | 'address' | 'port' | 'protocol'> {
  const slash = key.lastIndexOf('/')
  const { address, port } = parseEndpoint(key.slice(0, slash))
  return { family: familyOf(address), address, port, protocol: key.slice(slash + 1) as Protocol }
}

/** `namespace/name:port`, or `namespace/name` when the port has no name (Kubernetes' ServicePortName). */
export function servicePortName(service: Service, port: ServicePort): string {
  return `${service.namespace}/${service.name}${port.name === '' ? '' : `:${port.name}`}`
}

const RANK: Readonly<Record<FrontendRole, number>> = { ClusterIP: 0, NodePort: 0, LoadBalancerVip: 1, ExternalIP: 2 }

/**
 * How good the claim of a frontend on its key is, by its best role, lower first. The API server allots cluster IPs and node ports,
 * and each to one Service only; VIPs are written by controllers; external IPs by anybody who may write a Service.
 */
export function claimRank({ roles }: Frontend): number {
  let best = RANK.ExternalIP
  for (const role of roles) best = Math.min(best, RANK[role])
  return best
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
      sameList(a.roles, b.roles) &&
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
