/**
 * What this node must answer for. A Service port has one frontend for each place at which clients
 * connect to it: an address, port and protocol, or a node port at every address of the node. A
 * Service has them at each of its addresses in each of their roles, for each port.
 */
import { familyOf, formatEndpoint, parseEndpoint } from '../values/address.ts'
import { sameList } from '../values/lists.ts'
import type { IpFamily, Protocol } from '../values/protocol.ts'
import type { Selection } from './endpoints.ts'
import type { NodeContext } from './node-context.ts'
import type { Service, ServicePortSpec } from './objects.ts'
import { type FamilyOfService, sameServicePort, type ServicePort } from './service-port.ts'
import type { SourceRanges } from './source-ranges.ts'

/**
 * `10.96.0.1:443/tcp`, IPv6 in brackets; `*:30080/tcp` and `[*]:30080/tcp` are node ports at every
 * address of the node.
 */
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
   * Everything the address is to the Service port, at least one role, in the order of
   * FRONTEND_ROLES: an address that is in `status.loadBalancer.ingress` and in `spec.externalIPs`
   * is both, as in kube-proxy.
   */
  readonly roles: readonly FrontendRole[]
  /** undefined: a node port that answers at every address of the node (NodePortFrontends 'every-address'). */
  readonly address: string | undefined
  /** The Service's port; the node port when the address is nothing but a node port's. */
  readonly port: number
  /**
   * Whether the address belongs on kube-ipvs0: not for a node port alone, and never an address that
   * the node itself has.
   */
  readonly bind: boolean
  /**
   * Endpoints in use: `servicePort.internal` for frontends that are only a ClusterIP,
   * `servicePort.external` for all others.
   */
  readonly selection: Selection
  /** The sources that may connect; undefined: every source. Only a LoadBalancerVip has a firewall. */
  readonly firewall: SourceRanges | undefined
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
 * The rank of a frontend's claim on its key, from its best role; the lowest rank wins. The API
 * server allots cluster IPs and node ports, and each to one Service only; controllers write VIPs;
 * every user who may write a Service can write external IPs.
 */
export function claimRank({ roles }: Frontend): number {
  let best = RANK.ExternalIP
  for (const role of roles) best = Math.min(best, RANK[role])
  return best
}

/**
 * Whether two frontends of one key have the same effect on every table, health check and metric.
 * Address, selection and firewall follow from the fields that are compared.
 */
export type SameFrontend = (a: Frontend, b: Frontend) => boolean

/**
 * Makes a SameFrontend that compares two ServicePorts once for all of their frontends that it is
 * given one after another: a Service may have thousands of them, and as many endpoints.
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

/** A place at which a Service has a frontend, unless another of its ports has one there. */
export interface FrontendPlace {
  /** The first of its roles. */
  readonly role: FrontendRole
  readonly family: FamilyOfService
  readonly spec: ServicePortSpec
  readonly address: Frontend['address']
}

/** Every place, in the order of FRONTEND_ROLES. */
export function* placesOf(
  service: Service,
  families: readonly FamilyOfService[],
): Generator<FrontendPlace, void, void> {
  for (const role of FRONTEND_ROLES)
    for (const family of families)
      for (const spec of service.ports)
        for (const address of addressesOf(role, spec, family)) yield { role, family, spec, address }
}

/** The number of places that `placesOf` would return, without listing them. */
export function countPlaces(service: Service, families: readonly FamilyOfService[]): number {
  let count = 0
  for (const { clusterIp, vips, externalIps, nodePortPlaces, ignored } of families) {
    const all = new Set<Frontend['address']>([clusterIp, ...vips, ...externalIps])
    const shared = nodePortPlaces.filter((address) => all.has(address)).length
    for (const spec of service.ports) {
      count += all.size + ignored
      if (spec.nodePort !== 0) count += nodePortPlaces.length - (isBothPorts(spec) ? shared : 0)
    }
  }
  return count
}

/**
 * Whether the node port of a port is the port itself, so that one address may have the role of a
 * node port in addition to others.
 */
function isBothPorts(spec: ServicePortSpec): boolean {
  return spec.nodePort === spec.port
}

/** The addresses at which a port has this role and none of those before it. */
function* addressesOf(
  role: FrontendRole,
  spec: ServicePortSpec,
  { clusterIp, vips, externalIps, nodePortPlaces }: FamilyOfService,
): Generator<Frontend['address'], void, void> {
  const isNodePorts = (address: string): boolean => isBothPorts(spec) && nodePortPlaces.includes(address)
  switch (role) {
    case 'ClusterIP':
      yield clusterIp
      return
    case 'NodePort':
      if (spec.nodePort === 0) return
      for (const address of nodePortPlaces) if (!isBothPorts(spec) || address !== clusterIp) yield address
      return
    case 'LoadBalancerVip':
      for (const address of vips) if (address !== clusterIp && !isNodePorts(address)) yield address
      return
    case 'ExternalIP':
      for (const address of externalIps)
        if (address !== clusterIp && !vips.has(address) && !isNodePorts(address)) yield address
  }
}

/**
 * kube-proxy binds a cluster IP even when it is on another interface of the node, unlike the
 * addresses of other roles.
 */
const isBoundAlways = (bits: number): boolean => (bits & BIT.ClusterIP) !== 0

const BIT: Readonly<Record<FrontendRole, number>> = { ClusterIP: 1, NodePort: 2, LoadBalancerVip: 4, ExternalIP: 8 }

/** Every combination of roles once, by the sum of their bits. */
const COMBINATIONS: readonly (readonly FrontendRole[])[] = Array.from({ length: 16 }, (_, bits) =>
  FRONTEND_ROLES.filter((role) => (bits & BIT[role]) !== 0),
)

/** The sum of the bits of all roles of the place's address. */
function roleBits({ role, address, spec, family }: FrontendPlace): number {
  const { clusterIp, vips, externalIps } = family
  if (address === undefined || (role === 'NodePort' && !isBothPorts(spec))) return BIT.NodePort
  let bits = BIT[role]
  if (address === clusterIp) bits |= BIT.ClusterIP
  if (isBothPorts(spec) && family.nodePortPlaces.includes(address)) bits |= BIT.NodePort
  if (vips.has(address)) bits |= BIT.LoadBalancerVip
  if (externalIps.has(address)) bits |= BIT.ExternalIP
  return bits
}

/** The frontend at a place. */
export function makeFrontend(
  servicePort: ServicePort,
  place: FrontendPlace,
  { localAddresses }: NodeContext,
): Frontend {
  const { role, address, spec, family } = place
  const { protocol } = spec
  const bits = roleBits(place)
  const port = role === 'NodePort' ? spec.nodePort : spec.port
  return {
    key: address === undefined ? nodePortKey(family.family, port, protocol) : frontendKey(address, port, protocol),
    servicePort,
    roles: COMBINATIONS[bits] ?? [role],
    address,
    port,
    bind: isBoundAlways(bits) || (bits !== BIT.NodePort && address !== undefined && !localAddresses.has(address)),
    // An address in several roles uses the external endpoints, because kube-proxy writes those last.
    selection: bits === BIT.ClusterIP ? servicePort.internal : servicePort.external,
    firewall: (bits & BIT.LoadBalancerVip) === 0 ? undefined : servicePort.firewall,
  }
}
