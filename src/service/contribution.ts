/**
 * Turns one Service into its frontends on this node. The result depends only on the Service, its slices, the settings, and the fields
 * of NodeContext that `reads` names.
 */
import { familyOf } from '../values/address.ts'
import { type Problem, ProblemList } from '../values/errors.ts'
import { IP_FAMILIES } from '../values/protocol.ts'
import { type AnnotationReader, NO_CHOICES, type ServiceChoices } from './annotations.ts'
import { type SliceIndex, localReadyEndpoints, indexSlices } from './endpoints.ts'
import {
  type FamilyOfService,
  type Frontend,
  FRONTEND_ROLES,
  frontendKey,
  type FrontendKey,
  type FrontendRole,
  makeServicePort,
  nodePortKey,
  type ServicePort,
} from './frontends.ts'
import {
  type NodeContext,
  READS_LOCAL_ADDRESSES,
  READS_NODE_IPS,
  READS_NODE_PORT_ADDRESSES,
  READS_VIRTUAL_IPS,
} from './node-context.ts'
import type { EndpointSlice, Service, ServicePortSpec } from './objects.ts'
import { firewallOf, sourceRangeProblems } from './source-ranges.ts'
import { type AddressUse, permittedExternalIps, permittedVips } from './virtual-ips.ts'

/**
 * Which frontends a node port has: one at each of NodeContext.nodePortAddresses, or a single one without an address. The latter is for
 * a mode in which one rule serves all addresses of the node.
 */
export type NodePortFrontends = 'each-address' | 'every-address'

/** Settings of frontends. They do not change during the life of the process. */
export interface FrontendSettings {
  /** Default: 'each-address'. */
  readonly nodePorts?: NodePortFrontends
  /** Frontends that a Service may have; absent: any number. */
  readonly maxFrontends?: number
  /** False: spec.externalIPs is ignored (feature gate AllowServiceExternalIPs, KEP-5707). */
  readonly usesExternalIps?: boolean
  /** Reads the annotations of Services; absent: annotations have no effect. */
  readonly annotations?: AnnotationReader
  /** Whether addresses of Services become addresses of this node, as in ipvs mode. Default true. */
  readonly bindsAddresses?: boolean
  /** The Service that has a cluster IP. Absent: not known. */
  readonly clusterIpOwner?: AddressUse['clusterIpOwner']
}

/** What one Service claims on this node. */
export interface Contribution {
  readonly frontends: ReadonlyMap<FrontendKey, Frontend>
  readonly problems: readonly Problem[]
  readonly choices: ServiceChoices
  /** READS_* bits of the fields of NodeContext that the result depends on. */
  readonly reads: number
}

/** A Service may have this many real servers for each frontend that kubeIPVS.maxFrontendsPerService permits. */
const REAL_SERVERS_EACH = 100

/**
 * Makes the frontends of a Service one by one, in the order of FRONTEND_ROLES. Addresses that the cluster allocates precede those that
 * users may write, so that a Service beyond the limit keeps the former. `slices` are the Service's own, in any order.
 */
export function* frontendsOf(
  service: Service,
  slices: readonly EndpointSlice[],
  node: NodeContext,
  settings: FrontendSettings = {},
): Generator<Frontend, Contribution, void> {
  const limit = settings.maxFrontends ?? Number.POSITIVE_INFINITY
  const problems = new ProblemList()
  const frontends = new Map<FrontendKey, Frontend>()
  const choices = choicesOf(service, settings, problems)
  const families = familiesOf(service, choices, indexSlices(slices), node, settings, problems)
  const ports = new Map<FamilyParts, Map<ServicePortSpec, ServicePort>>(families.map((family) => [family, new Map()]))
  const left = { places: limit, sourceRanges: limit, realServers: limit * REAL_SERVERS_EACH }
  let reads = readsOf(service, families, node, settings) | (choices.weights?.reads ?? 0)
  let tooLarge = 0
  for (const place of placesOf(service, families)) {
    // Counts every place, even one that gets no frontend: this bounds the work.
    if (left.places-- <= 0) break
    const { family, spec } = place
    let servicePort = ports.get(family)?.get(spec)
    if (servicePort === undefined) {
      servicePort = makeServicePort(spec, family, node)
      ports.get(family)?.set(spec, servicePort)
      reads |= servicePort.cluster.reads
    }
    const frontend = makeFrontend(servicePort, place, node)
    const before = frontends.get(frontend.key)
    const ranges = frontend.firewall?.ranges.length ?? 0
    const realServers = frontend.selection.endpoints.length
    if (before !== undefined) {
      if (before.servicePort.name !== servicePort.name) problems.add(conflict(before, frontend))
    } else if (ranges > left.sourceRanges || realServers > left.realServers) tooLarge++
    else {
      left.sourceRanges -= ranges
      left.realServers -= realServers
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
    choices,
    reads,
  }
}

/** READS_* bits, without those of the ports. */
function readsOf(
  service: Service,
  families: readonly FamilyParts[],
  node: NodeContext,
  { nodePorts }: FrontendSettings,
): number {
  let reads = READS_LOCAL_ADDRESSES
  if (node.virtualIps !== undefined && service.externalIps.length + service.loadBalancerVips.length > 0)
    reads |= READS_VIRTUAL_IPS | READS_NODE_IPS
  if (families.some(({ firewall }) => firewall !== undefined)) reads |= READS_NODE_IPS
  if (nodePorts !== 'every-address' && service.ports.some(({ nodePort }) => nodePort !== 0))
    reads |= READS_NODE_PORT_ADDRESSES
  return reads
}

function tooMany({ namespace, name }: Service, leftOut: number, all: number, limit: number): Problem {
  const message =
    `${leftOut} of ${all} frontends are left out: a Service may have ${limit} on a node, with as many source ranges and ` +
    `${limit * REAL_SERVERS_EACH} real servers at all of them together (kubeIPVS.maxFrontendsPerService)`
  return { code: 'too-many-frontends', subject: `service ${namespace}/${name}`, field: 'spec', message }
}

/** A place at which a Service has a frontend, unless another of its ports has one there. */
interface FrontendPlace {
  /** The first of its roles. */
  readonly role: FrontendRole
  readonly family: FamilyParts
  readonly spec: ServicePortSpec
  readonly address: Frontend['address']
}

function* placesOf(service: Service, families: readonly FamilyParts[]): Generator<FrontendPlace, void, void> {
  for (const role of FRONTEND_ROLES)
    for (const family of families)
      for (const spec of service.ports)
        for (const address of addressesOf(role, spec, family)) yield { role, family, spec, address }
}

/** The number of places that `placesOf` would return, without listing them. */
function countPlaces(service: Service, families: readonly FamilyParts[]): number {
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

interface FamilyParts extends FamilyOfService {
  readonly clusterIp: string
  /** Number of addresses beyond the limit of frontends, which were not examined. */
  readonly ignored: number
  /** The addresses of the frontends of a node port. */
  readonly nodePortPlaces: readonly Frontend['address'][]
}

const NO_ADDRESSES: ReadonlySet<string> = new Set()
const noOwner = (): undefined => undefined
const EVERY_ADDRESS: readonly undefined[] = [undefined]

function choicesOf(
  { namespace, name, annotations }: Service,
  settings: FrontendSettings,
  to: ProblemList,
): ServiceChoices {
  if (settings.annotations === undefined) return NO_CHOICES
  const { choices, problems } = settings.annotations.read(annotations)
  for (const problem of problems)
    to.add({ code: 'invalid-annotation', subject: `service ${namespace}/${name}`, ...problem })
  return choices
}

function familiesOf(
  service: Service,
  choices: ServiceChoices,
  slices: SliceIndex,
  node: NodeContext,
  settings: FrontendSettings,
  problems: ProblemList,
): readonly FamilyParts[] {
  const { maxFrontends: limit = Number.POSITIVE_INFINITY, nodePorts, usesExternalIps = true } = settings
  const { bindsAddresses: binds = true, clusterIpOwner = noOwner } = settings
  const use: AddressUse = { binds, clusterIpOwner }
  const vips = permittedVips(service, service.loadBalancerVips.slice(0, limit), node, use, problems)
  // kube-proxy does not report external IPs that the feature gate turns off.
  const externalIps = usesExternalIps
    ? permittedExternalIps(service, service.externalIps.slice(0, limit), vips, node, use, problems)
    : []
  const ignored = [...service.externalIps.slice(limit), ...service.loadBalancerVips.slice(limit)]
  return IP_FAMILIES.flatMap((family) => {
    const clusterIp = service.clusterIps[family]
    if (clusterIp === undefined) return []
    const isOwn = (address: string): boolean => familyOf(address) === family
    const ofFamily = (all: readonly string[]): ReadonlySet<string> =>
      all.length === 0 ? NO_ADDRESSES : new Set(all.filter(isOwn))
    const ownVips = ofFamily(vips)
    return {
      service,
      choices,
      family,
      clusterIp,
      vips: ownVips,
      externalIps: ofFamily(externalIps),
      ignored: ignored.filter(isOwn).length,
      ignoresExternalIps: !usesExternalIps && service.externalIps.some(isOwn),
      nodePortPlaces: nodePorts === 'every-address' ? EVERY_ADDRESS : node.nodePortAddresses[family],
      slices,
      localReadyEndpoints: service.healthCheckNodePort === 0 ? 0 : localReadyEndpoints(slices, family, node.nodeName),
      firewall: ownVips.size === 0 ? undefined : firewallOf(service, family, node.nodeIps),
    }
  })
}

/** Whether the node port of a port is the port itself, so that one address may have the role of a node port in addition to others. */
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

/** kube-proxy binds a cluster IP even when it is on another interface of the node, unlike the addresses of other roles. */
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

function makeFrontend(servicePort: ServicePort, place: FrontendPlace, { localAddresses }: NodeContext): Frontend {
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

/** Two ports of one Service claim the same address, port and protocol. */
function conflict(winner: Frontend, loser: Frontend): Problem {
  const { namespace, name } = loser.servicePort.service
  return {
    code: 'frontend-conflict',
    subject: `service ${namespace}/${name}`,
    field: 'spec.ports',
    message: `${loser.servicePort.name} (${loser.roles.join(', ')}) and ${winner.servicePort.name} (${winner.roles.join(', ')}) both claim ${loser.key}; the latter wins`,
  }
}

/** Reports addresses of a family in which the Service has no cluster IP. They are not proxied, as in kube-proxy. */
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
