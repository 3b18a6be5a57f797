/**
 * What this node must answer for. A ServicePort is one port of a Service in one family, with its endpoints selected: made once, so
 * that nothing selects endpoints a second time. It has one frontend for each place at which clients connect to it: an address, port
 * and protocol, or a node port at every address of the node. `contribution.ts` makes the frontends.
 */
import { familyOf, formatEndpoint, parseEndpoint } from '../values/address.ts'
import { sameList } from '../values/lists.ts'
import type { IpFamily, Protocol } from '../values/protocol.ts'
import type { Endpoint, PortSelections, Selection } from './endpoints.ts'
import type { ServiceChoices } from './annotations.ts'
import type { Service, ServicePortSpec, SliceEndpoint } from './objects.ts'
import { type Firewall, sameFirewall } from './source-ranges.ts'
import { DEFAULT_WEIGHT } from './weights.ts'

/** What all ports of one Service have in common in one family. */
export interface FamilyOfService {
  readonly service: Service
  readonly choices: ServiceChoices
  readonly family: IpFamily
  readonly vips: ReadonlySet<string>
  readonly externalIps: ReadonlySet<string>
  readonly ignoresExternalIps: boolean
  readonly firewall: Firewall | undefined
}

/** The endpoints of a Service port, selected. Ports of one Service with the same endpoints share it. */
export interface PortEndpoints extends PortSelections {
  /** All endpoints of the port, used or not. `verdicts[index]` of a selection is about `candidates[index]`. */
  readonly candidates: readonly Endpoint[]
  /** The weights that the Service chooses: `weights[index]` is that of `candidates[index]`. Absent: all have the same. */
  readonly weights?: readonly number[] | undefined
}

export interface ServicePort extends PortEndpoints {
  /** `namespace/name:port`, or `namespace/name` when the port has no name (Kubernetes' ServicePortName). */
  readonly name: string
  readonly family: IpFamily
  readonly protocol: Protocol
  /** 1-65535 */
  readonly port: number
  /** The fields of the Service that `sameServicePort` compares. A frontend that did not change may hold an older Service. */
  readonly service: Pick<
    Service,
    'namespace' | 'name' | 'createdAtMs' | 'healthCheckNodePort' | 'affinityTimeoutSeconds'
  >
  /** Compared with `===`. */
  readonly choices: ServiceChoices
  /**
   * The addresses in status.loadBalancer.ingress that this node permits, each once, in the order of the Service. `sameServicePort` does
   * not compare `vips` and `externalIps`, because each address has a separate frontend.
   */
  readonly vips: ReadonlySet<string>
  /** The permitted addresses in spec.externalIPs. */
  readonly externalIps: ReadonlySet<string>
  /**
   * Whether the Service has external IPs in this family that the feature gate AllowServiceExternalIPs turns off. kube-proxy in
   * iptables mode still makes the chain for external traffic then.
   */
  readonly ignoresExternalIps: boolean
  /** The sources that may connect to the VIPs; undefined: every source, or the port has no VIP. */
  readonly firewall: Firewall | undefined
  /**
   * Of a Service with a health check port: distinct addresses of its ready endpoints on this node in this family, over
   * all its ports. 0 for every other Service.
   */
  readonly localReadyEndpoints: number
  /** Whether the rules of ipvs mode accept packets to the health check port of the Service, if it has one. */
  readonly acceptsHealthChecks: boolean
}

const NO_WEIGHTS: readonly number[] = []

/** `namespace/name:port`, or `namespace/name` when the port has no name (Kubernetes' ServicePortName). */
function servicePortName(service: Service, port: ServicePortSpec): string {
  return `${service.namespace}/${service.name}${port.name === '' ? '' : `:${port.name}`}`
}

/** The ServicePort of `spec`, one of the ports of `shared.service`. */
export function makeServicePort(
  spec: ServicePortSpec,
  { service, choices, family, vips, externalIps, ignoresExternalIps, firewall }: FamilyOfService,
  { candidates, cluster, local, internal, external, weights }: PortEndpoints,
  { localReadyEndpoints, acceptsHealthChecks }: Pick<ServicePort, 'localReadyEndpoints' | 'acceptsHealthChecks'>,
): ServicePort {
  return {
    name: servicePortName(service, spec),
    family,
    protocol: spec.protocol,
    port: spec.port,
    service,
    choices,
    vips,
    externalIps,
    ignoresExternalIps,
    firewall,
    localReadyEndpoints,
    acceptsHealthChecks,
    // Not spread: a cold start makes one for each port of the cluster.
    candidates,
    cluster,
    local,
    internal,
    external,
    weights,
  }
}

/** The weight of each endpoint of a selection of the port, in their order; undefined when the Service chooses none. */
export function weightsOf(
  { candidates, weights }: ServicePort,
  { endpoints }: Selection,
): readonly number[] | undefined {
  if (weights === undefined || endpoints === candidates) return weights
  // A selection has some of the candidates, in their order.
  let at = 0
  return endpoints.map((endpoint) => {
    while (at < candidates.length && candidates[at] !== endpoint) at++
    return weights[at++] ?? DEFAULT_WEIGHT
  })
}

/**
 * Whether two values of one Service port have the same effect on every table, health check and metric. Verdicts only explain, so
 * they are not compared. If a table renders another field, add it here.
 */
export function sameServicePort(a: ServicePort, b: ServicePort): boolean {
  return (
    a === b ||
    (a.name === b.name &&
      a.family === b.family &&
      a.protocol === b.protocol &&
      a.port === b.port &&
      sameService(a.service, b.service) &&
      a.choices === b.choices &&
      a.ignoresExternalIps === b.ignoresExternalIps &&
      a.localReadyEndpoints === b.localReadyEndpoints &&
      a.acceptsHealthChecks === b.acceptsHealthChecks &&
      a.internal.policy === b.internal.policy &&
      a.external.policy === b.external.policy &&
      sameCandidates(a.candidates, b.candidates) &&
      sameList(a.weights ?? NO_WEIGHTS, b.weights ?? NO_WEIGHTS) &&
      sameSelection(a.cluster, b.cluster) &&
      sameSelection(a.local, b.local) &&
      sameFirewall(a.firewall, b.firewall))
  )
}

function sameService(a: ServicePort['service'], b: ServicePort['service']): boolean {
  return (
    a === b ||
    (a.namespace === b.namespace &&
      a.name === b.name &&
      a.createdAtMs === b.createdAtMs &&
      a.healthCheckNodePort === b.healthCheckNodePort &&
      a.affinityTimeoutSeconds === b.affinityTimeoutSeconds)
  )
}

function sameSelection(a: Selection | undefined, b: Selection | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  return sameEndpoints(a.endpoints, b.endpoints)
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
 * Whether the endpoints of a port are the same and in the same state: hairpin entries depend on the node of an endpoint, and a UDP
 * flow ends when its endpoint no longer serves.
 */
function sameCandidates(a: readonly Endpoint[], b: readonly Endpoint[]): boolean {
  return sameEndpoints(a, b) && a.every(({ source }, index) => sameSource(source, b[index]?.source))
}

function sameSource(a: SliceEndpoint, b: SliceEndpoint | undefined): boolean {
  return a === b || (b !== undefined && a.nodeName === b.nodeName && a.serving === b.serving)
}

/** `10.96.0.1:443/tcp`, IPv6 in brackets; `*:30080/tcp` and `[*]:30080/tcp` are node ports at every address of the node. */
export type FrontendKey = string

/** What an address can be to its Service, in the order in which a frontend names its roles. */
export const FRONTEND_ROLES = ['ClusterIP', 'NodePort', 'LoadBalancerVip', 'ExternalIP'] as const
export type FrontendRole = (typeof FRONTEND_ROLES)[number]

/** One place at which this node answers for a Service port. */
export interface Frontend {
  readonly key: FrontendKey
  /** Shared by all frontends of the port. */
  readonly servicePort: ServicePort
  /**
   * Everything the address is to the Service port, at least one role, in the order of FRONTEND_ROLES: an address that is in
   * `status.loadBalancer.ingress` and in `spec.externalIPs` is both, as in kube-proxy.
   */
  readonly roles: readonly FrontendRole[]
  /** undefined: a node port that answers at every address of the node (NodePortFrontends 'every-address'). */
  readonly address: string | undefined
  /** The Service's port; the node port when the address is nothing but a node port's. */
  readonly port: number
  /** Whether the address belongs on kube-ipvs0: not for a node port alone, and never an address that the node itself has. */
  readonly bind: boolean
  /** Endpoints in use: `servicePort.internal` for frontends that are only a ClusterIP, `servicePort.external` for all others. */
  readonly selection: Selection
  /** The sources that may connect; undefined: every source. Only a LoadBalancerVip has a firewall. */
  readonly firewall: Firewall | undefined
}

/** A frontend of one address, as ipvs mode has them. */
export interface AddressFrontend extends Frontend {
  readonly address: string
}

export function hasAddress(frontend: Frontend): frontend is AddressFrontend {
  return frontend.address !== undefined
}

/** Whether one of these frontends has the address; while there is none yet, every address may be one of a Service. */
export function mayServe(keys: Iterable<FrontendKey>, address: string): boolean {
  const start = address.includes(':') ? `[${address}]:` : `${address}:`
  let isEmpty = true
  for (const key of keys) {
    if (key.startsWith(start)) return true
    isEmpty = false
  }
  return isEmpty
}

/** `10.96.0.1:443/tcp` */
export function frontendKey(address: string, port: number, protocol: Protocol): FrontendKey {
  return `${formatEndpoint(address, port)}/${protocol}`
}

/** What a key made by `frontendKey` was made from. */
export function parseFrontendKey(key: FrontendKey): {
  readonly family: IpFamily
  readonly address: string
  readonly port: number
  readonly protocol: Protocol
} {
  const slash = key.lastIndexOf('/')
  const { address, port } = parseEndpoint(key.slice(0, slash))
  return { family: familyOf(address), address, port, protocol: key.slice(slash + 1) as Protocol }
}

const EVERY_ADDRESS: Readonly<Record<IpFamily, string>> = { IPv4: '*:', IPv6: '[*]:' }

/** `*:30080/tcp`, of IPv6 `[*]:30080/tcp`: the key of a node port at every address of the node. */
export function nodePortKey(family: IpFamily, port: number, protocol: Protocol): FrontendKey {
  return `${EVERY_ADDRESS[family]}${port}/${protocol}`
}

/** The family of any frontend's key. */
export function familyOfKey(key: FrontendKey): IpFamily {
  return key.startsWith('[') ? 'IPv6' : 'IPv4'
}

/** What a key made by `nodePortKey` was made from; undefined for a key made by `frontendKey`. */
export function parseNodePortKey(key: FrontendKey): { readonly port: number; readonly protocol: Protocol } | undefined {
  const prefix = EVERY_ADDRESS[familyOfKey(key)]
  if (!key.startsWith(prefix)) return undefined
  const slash = key.lastIndexOf('/')
  return { port: Number(key.slice(prefix.length, slash)), protocol: key.slice(slash + 1) as Protocol }
}

const RANK: Readonly<Record<FrontendRole, number>> = { ClusterIP: 0, NodePort: 0, LoadBalancerVip: 1, ExternalIP: 2 }

/**
 * The rank of a frontend's claim on its key, from its best role; the lowest rank wins. The API server allots cluster IPs and node ports,
 * and each to one Service only; controllers write VIPs; every user who may write a Service can write external IPs.
 */
export function claimRank({ roles }: Frontend): number {
  let best = RANK.ExternalIP
  for (const role of roles) best = Math.min(best, RANK[role])
  return best
}

/**
 * Whether two frontends of one key have the same effect on every table, health check and metric. Address, selection and firewall follow
 * from the fields that are compared.
 */
export type SameFrontend = (a: Frontend, b: Frontend) => boolean

/**
 * Makes a SameFrontend that compares two ServicePorts once for all of their frontends that it is given one after another: a Service
 * may have thousands of them, and as many endpoints.
 */
export function frontendComparison(): SameFrontend {
  let one: ServicePort | undefined
  let other: ServicePort | undefined
  let same = false
  const isSamePort = (a: ServicePort, b: ServicePort): boolean => {
    if (a !== one || b !== other) {
      same = sameServicePort(a, b)
      one = a
      other = b
    }
    return same
  }
  return (a, b) =>
    a === b ||
    (a.key === b.key && a.bind === b.bind && sameList(a.roles, b.roles) && isSamePort(a.servicePort, b.servicePort))
}
