/**
 * Turns one Service into what this node must answer for. The result depends on the Service, its slices and those fields of the
 * node's context that `reads` names, and on nothing else.
 */
import { familyOf } from '../values/address.ts'
import { type Problem, ProblemList } from '../values/errors.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import { type Endpoint, type EndpointOffers, endpointsOf, localReadyEndpoints, offersOf } from './endpoints.ts'
import {
  type Frontend,
  FRONTEND_ROLES,
  type FrontendKey,
  frontendKey,
  type FrontendRole,
  servicePortName,
} from './frontends.ts'
import {
  type NodeContext,
  READS_LOCAL_ADDRESSES,
  READS_NODE_IPS,
  READS_NODE_PORT_ADDRESSES,
  READS_VIRTUAL_IPS,
} from './node-context.ts'
import type { EndpointSlice, Service, ServicePort } from './objects.ts'
import { type Firewall, firewallOf, sourceRangeProblems } from './source-ranges.ts'
import { type PortSelections, selectEndpoints } from './topology.ts'
import { permittedExternalIps, permittedVips } from './virtual-ips.ts'

/** All that one Service wants of this node. */
export interface Contribution {
  readonly frontends: ReadonlyMap<FrontendKey, Frontend>
  readonly problems: readonly Problem[]
  /** READS_* bits of the context's fields that took part. */
  readonly reads: number
}

/** Real servers that a Service may have for each frontend that it may have (kubeIPVS.maxFrontendsPerService). */
const REAL_SERVERS_EACH = 100

/**
 * Makes the frontends of a Service one by one, in the order of FRONTEND_ROLES: what the cluster allots comes before what anybody
 * may write into a Service, so that a Service with more of them than it may have keeps the former. `slices` are that
 * Service's own, in any order.
 */
export function* frontendsOf(
  service: Service,
  slices: readonly EndpointSlice[],
  node: NodeContext,
): Generator<Frontend, Contribution, void> {
  const limit = node.maxFrontends ?? Number.POSITIVE_INFINITY
  const problems = new ProblemList()
  const frontends = new Map<FrontendKey, Frontend>()
  const families = familiesOf(service, offersOf(slices), node, limit, problems)
  const parts = new Map<FamilyParts, Map<ServicePort, PortParts>>(families.map((family) => [family, new Map()]))
  const left = { places: limit, sourceRanges: limit, realServers: limit * REAL_SERVERS_EACH }
  let reads = readsOf(service, families, node)
  let tooLarge = 0
  for (const { role, family, port, address } of placesOf(service, families)) {
    // Also where nothing is made: the work ends with this number.
    if (left.places-- <= 0) break
    let ofPort = parts.get(family)?.get(port)
    if (ofPort === undefined) {
      ofPort = partsOf(service, port, family, node)
      parts.get(family)?.set(port, ofPort)
      reads |= ofPort.reads
    }
    const frontend = makeFrontend(ofPort, role, address, node)
    const before = frontends.get(frontend.key)
    const ranges = frontend.firewall?.ranges.length ?? 0
    if (before !== undefined) {
      if (before.servicePortName !== frontend.servicePortName) problems.add(conflict(before, frontend))
    } else if (ranges > left.sourceRanges || frontend.endpoints.length > left.realServers) tooLarge++
    else {
      left.sourceRanges -= ranges
      left.realServers -= frontend.endpoints.length
      frontends.set(frontend.key, frontend)
      yield frontend
    }
  }
  reportOtherFamilies(service, problems)
  for (const problem of sourceRangeProblems(service)) problems.add(problem)
  const all = left.places < 0 ? countPlaces(service, families) : frontends.size + tooLarge
  const leftOut = (left.places < 0 ? all - limit : 0) + tooLarge
  return {
    frontends,
    problems: leftOut === 0 ? problems.problems : [tooMany(service, leftOut, all, limit), ...problems.problems],
    reads,
  }
}

/** READS_* bits but those of the ports. */
function readsOf(service: Service, families: readonly FamilyParts[], node: NodeContext): number {
  let reads = READS_LOCAL_ADDRESSES
  if (node.virtualIps !== undefined && service.externalIps.length + service.loadBalancerVips.length > 0)
    reads |= READS_VIRTUAL_IPS | READS_NODE_IPS
  if (families.some(({ firewall }) => firewall !== undefined)) reads |= READS_NODE_IPS
  if (service.ports.some(({ nodePort }) => nodePort !== 0)) reads |= READS_NODE_PORT_ADDRESSES
  return reads
}

function tooMany({ namespace, name }: Service, leftOut: number, all: number, limit: number): Problem {
  const message =
    `${leftOut} of ${all} frontends are left out: a Service may have ${limit} on a node, with as many source ranges and ` +
    `${limit * REAL_SERVERS_EACH} real servers at all of them together (kubeIPVS.maxFrontendsPerService)`
  return { code: 'too-many-frontends', subject: `service ${namespace}/${name}`, field: 'spec', message }
}

/** Where a Service has a frontend, unless two of its ports meet there. */
interface FrontendPlace {
  /** The first of its roles. */
  readonly role: FrontendRole
  readonly family: FamilyParts
  readonly port: ServicePort
  readonly address: string
}

function* placesOf(service: Service, families: readonly FamilyParts[]): Generator<FrontendPlace, void, void> {
  for (const role of FRONTEND_ROLES)
    for (const family of families)
      for (const port of service.ports)
        for (const address of addressesOf(role, port, family)) yield { role, family, port, address }
}

/** How many places there are, without going through them. */
function countPlaces(service: Service, families: readonly FamilyParts[]): number {
  let count = 0
  for (const { clusterIp, vips, externalIps, nodeAddresses, ignored } of families) {
    const addresses = new Set([clusterIp, ...vips, ...externalIps])
    const shared = nodeAddresses.filter((address) => addresses.has(address)).length
    for (const port of service.ports) {
      count += addresses.size + ignored
      if (port.nodePort !== 0) count += nodeAddresses.length - (isBothPorts(port) ? shared : 0)
    }
  }
  return count
}

/** What all frontends of one Service and family have in common. */
interface FamilyParts {
  readonly family: IpFamily
  readonly clusterIp: string
  /** Each address once; those that are the cluster IP too, or VIPs among the external ones, are in both roles there. */
  readonly vips: ReadonlySet<string>
  readonly externalIps: ReadonlySet<string>
  /** Addresses beyond the number that a Service could have with a single port. */
  readonly ignored: number
  readonly nodeAddresses: readonly string[]
  readonly offers: EndpointOffers
  readonly localReady: number
  readonly firewall: Firewall | undefined
}

const NO_ADDRESSES: ReadonlySet<string> = new Set()

function familiesOf(
  service: Service,
  offers: EndpointOffers,
  node: NodeContext,
  limit: number,
  problems: ProblemList,
): readonly FamilyParts[] {
  const vips = permittedVips(service, service.loadBalancerVips.slice(0, limit), node, problems)
  const externalIps = permittedExternalIps(service, service.externalIps.slice(0, limit), vips, node, problems)
  const ignored = [...service.externalIps.slice(limit), ...service.loadBalancerVips.slice(limit)]
  return IP_FAMILIES.flatMap((family) => {
    const clusterIp = service.clusterIps[family]
    if (clusterIp === undefined) return []
    const isOwn = (address: string): boolean => familyOf(address) === family
    const ofFamily = (all: readonly string[]): ReadonlySet<string> =>
      all.length === 0 ? NO_ADDRESSES : new Set(all.filter(isOwn))
    const ownVips = ofFamily(vips)
    return {
      family,
      clusterIp,
      vips: ownVips,
      externalIps: ofFamily(externalIps),
      ignored: ignored.filter(isOwn).length,
      nodeAddresses: node.nodePortAddresses[family],
      offers,
      localReady: service.healthCheckNodePort === 0 ? 0 : localReadyEndpoints(offers, family, node.nodeName),
      firewall: ownVips.size === 0 ? undefined : firewallOf(service, family, node.nodeIps),
    }
  })
}

/** Whether the node port of a port is the port itself, so that its address may be another one of the Service's as well. */
function isBothPorts(port: ServicePort): boolean {
  return port.nodePort === port.port
}

/** The addresses at which a port has this role and none of those before it. */
function* addressesOf(role: FrontendRole, port: ServicePort, family: FamilyParts): Generator<string, void, void> {
  const { clusterIp, vips, externalIps, nodeAddresses } = family
  const isNodePorts = (address: string): boolean => isBothPorts(port) && nodeAddresses.includes(address)
  switch (role) {
    case 'ClusterIP':
      yield clusterIp
      return
    case 'NodePort':
      if (port.nodePort === 0) return
      for (const address of nodeAddresses) if (!isBothPorts(port) || address !== clusterIp) yield address
      return
    case 'LoadBalancerVip':
      for (const address of vips) if (address !== clusterIp && !isNodePorts(address)) yield address
      return
    case 'ExternalIP':
      for (const address of externalIps)
        if (address !== clusterIp && !vips.has(address) && !isNodePorts(address)) yield address
  }
}

/** What all frontends of one Service port and family have in common. */
interface PortParts {
  readonly service: Service
  readonly port: ServicePort
  readonly family: FamilyParts
  readonly candidates: readonly Endpoint[]
  readonly chosen: PortSelections
  readonly name: string
  readonly reads: number
}

function partsOf(service: Service, port: ServicePort, family: FamilyParts, node: NodeContext): PortParts {
  const candidates = endpointsOf(family.offers, family.family, port.protocol, port.name, node.nodeName)
  const chosen = selectEndpoints(service.internalTrafficPolicy, service.externalTrafficPolicy, candidates, node)
  const { vips, externalIps, nodeAddresses } = family
  const isExternal = vips.size + externalIps.size > 0 || (port.nodePort !== 0 && nodeAddresses.length > 0)
  const reads = chosen.internal.reads | (isExternal ? chosen.external.reads : 0)
  return { service, port, family, candidates, chosen, name: servicePortName(service, port), reads }
}

/** kube-proxy binds a cluster IP even when it is on another interface of the node, unlike the addresses of other roles. */
const isBoundAlways = (bits: number): boolean => (bits & BIT.ClusterIP) !== 0

const BIT: Readonly<Record<FrontendRole, number>> = { ClusterIP: 1, NodePort: 2, LoadBalancerVip: 4, ExternalIP: 8 }

/** Every combination of roles once, by the sum of their bits. */
const COMBINATIONS: readonly (readonly FrontendRole[])[] = Array.from({ length: 16 }, (_, bits) =>
  FRONTEND_ROLES.filter((role) => (bits & BIT[role]) !== 0),
)

/** The sum of the bits of all roles that an address has whose first role is this one. */
function roleBits(first: FrontendRole, address: string, port: ServicePort, family: FamilyParts): number {
  const { clusterIp, vips, externalIps, nodeAddresses } = family
  if (first === 'NodePort' && !isBothPorts(port)) return BIT.NodePort
  let bits = BIT[first]
  if (address === clusterIp) bits |= BIT.ClusterIP
  if (isBothPorts(port) && nodeAddresses.includes(address)) bits |= BIT.NodePort
  if (vips.has(address)) bits |= BIT.LoadBalancerVip
  if (externalIps.has(address)) bits |= BIT.ExternalIP
  return bits
}

/** @param first the first of the roles that the address has */
function makeFrontend(parts: PortParts, first: FrontendRole, address: string, node: NodeContext): Frontend {
  const { service, port, family, candidates, name } = parts
  const bits = roleBits(first, address, port, family)
  // kube-proxy writes the endpoints of the external roles last.
  const isInternal = bits === BIT.ClusterIP
  const selection = isInternal ? parts.chosen.internal : parts.chosen.external
  const number = first === 'NodePort' ? port.nodePort : port.port
  return {
    key: frontendKey(address, number, port.protocol),
    roles: COMBINATIONS[bits] ?? [first],
    family: family.family,
    address,
    port: number,
    protocol: port.protocol,
    servicePortName: name,
    affinityTimeoutSeconds: service.affinityTimeoutSeconds,
    bind: isBoundAlways(bits) || (bits !== BIT.NodePort && !node.localAddresses.has(address)),
    policy: isInternal ? service.internalTrafficPolicy : service.externalTrafficPolicy,
    endpoints: selection.endpoints,
    candidates,
    verdicts: selection.verdicts,
    noLocalEndpoints: selection.noLocalEndpoints,
    localReadyEndpoints: family.localReady,
    firewall: (bits & BIT.LoadBalancerVip) === 0 ? undefined : family.firewall,
    service,
  }
}

/** Two ports of one Service that meet at one address, port and protocol. */
function conflict(winner: Frontend, loser: Frontend): Problem {
  const { namespace, name } = loser.service
  return {
    code: 'frontend-conflict',
    subject: `service ${namespace}/${name}`,
    field: 'spec.ports',
    message: `${loser.servicePortName} (${loser.roles.join(', ')}) and ${winner.servicePortName} (${winner.roles.join(', ')}) both want ${loser.key}; the latter has it`,
  }
}

/** An address of a family in which the Service has no cluster IP is not proxied, as in kube-proxy. */
function reportOtherFamilies(service: Service, problems: ProblemList): void {
  const report = (field: string, addresses: readonly string[]): void => {
    for (const address of addresses) {
      const family = familyOf(address)
      if (service.clusterIps[family] !== undefined) continue
      const message = `${address} is left out: the Service has no ${family} cluster IP`
      problems.add({ code: 'address-family', subject: `service ${service.namespace}/${service.name}`, field, message })
    }
  }
  report('spec.externalIPs', service.externalIps)
  report('status.loadBalancer.ingress', service.loadBalancerVips)
}
