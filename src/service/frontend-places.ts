/**
 * The places at which a Service has frontends: each of its addresses in each of its roles, for each
 * port, and what a frontend is there.
 */
import type { FamilyOfService, ServicePort } from './service-port.ts'
import { type Frontend, FRONTEND_ROLES, frontendKey, type FrontendRole, nodePortKey } from './frontends.ts'
import type { NodeContext } from './node-context.ts'
import type { Service, ServicePortSpec } from './objects.ts'

/** A place at which a Service has a frontend, unless another of its ports has one there. */
export interface FrontendPlace {
  /** The first of its roles. */
  readonly role: FrontendRole
  readonly family: FamilyParts
  readonly spec: ServicePortSpec
  readonly address: Frontend['address']
}

/** Every place, in the order of FRONTEND_ROLES. */
export function* placesOf(service: Service, families: readonly FamilyParts[]): Generator<FrontendPlace, void, void> {
  for (const role of FRONTEND_ROLES)
    for (const family of families)
      for (const spec of service.ports)
        for (const address of addressesOf(role, spec, family)) yield { role, family, spec, address }
}

/** The number of places that `placesOf` would return, without listing them. */
export function countPlaces(service: Service, families: readonly FamilyParts[]): number {
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

/** What the places of a family depend on. */
export interface FamilyParts extends FamilyOfService {
  readonly clusterIp: string
  /** Number of addresses beyond the limit of frontends, which were not examined. */
  readonly ignored: number
  /** The addresses of the frontends of a node port. */
  readonly nodePortPlaces: readonly Frontend['address'][]
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
  { clusterIp, vips, externalIps, nodePortPlaces }: FamilyParts,
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
