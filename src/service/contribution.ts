/**
 * Turns one Service into its frontends on this node. The result depends only on the Service, its
 * slices, the settings, and the fields of NodeContext that `reads` names.
 */
import { familyOf } from '../values/address.ts'
import { type Cidr, parseCidrs } from '../values/cidr.ts'
import { Budget } from '../values/budget.ts'
import { type Problem, ProblemList } from '../values/errors.ts'
import { IP_FAMILIES } from '../values/protocol.ts'
import { type AnnotationReader, NO_CHOICES, type ServiceChoices } from './annotations.ts'
import { CostCount, type Costs, type Room, type Shortage, VIRTUAL_SERVER_COSTS } from './costs.ts'
import { countPlaces, type Frontend, type FrontendKey, makeFrontend, placesOf } from './frontends.ts'
import { JoinedSlices } from './joined-slices.ts'
import {
  type NodeContext,
  READS_LOCAL_ADDRESSES,
  READS_NODE_IPS,
  READS_NODE_PORT_ADDRESSES,
  READS_VIRTUAL_IPS,
} from './node-context.ts'
import type { EndpointSlice, Service } from './objects.ts'
import { type FamilyOfService, ServicePorts } from './service-port.ts'
import { rangesInForce, sourceRangeProblems } from './source-ranges.ts'
import { type AddressUse, permittedExternalIps, permittedVips } from './virtual-ips.ts'

/**
 * Which frontends a node port has: one at each of NodeContext.nodePortAddresses, or a single one
 * without an address. The latter is for a mode in which one rule serves all addresses of the node.
 */
export type NodePortFrontends = 'each-address' | 'every-address'

/** Settings of frontends. They do not change during the life of the process. */
export interface FrontendSettings {
  /** Default: 'each-address'. */
  readonly nodePorts?: NodePortFrontends
  /** Frontends that a Service may have; absent: any number. */
  readonly maxFrontends?: number
  /** What frontends cost a node in this mode. Default: VIRTUAL_SERVER_COSTS. */
  readonly costs?: Costs
  /** What all Services together may cost a node, read each time it is needed; absent: any number. */
  readonly maxCost?: () => number
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
  readonly cost: number
  /** What is left out because the node has no more room. */
  readonly shortage: Shortage | undefined
}

/** What a computation may do and use. */
export interface Turn {
  /** The Service as the room knows it: `namespace/name`. */
  readonly owner: string
  readonly budget: Budget
  readonly room: Room
}

const NO_LIMITS: Turn = { owner: '', budget: new Budget(), room: { allows: () => true } }

/**
 * Makes the frontends of a Service one by one, in the order of FRONTEND_ROLES. Addresses that the
 * cluster allocates precede those that users may write, so that a Service beyond the limit keeps
 * the former. `slices` are the Service's own, in any order. Yields undefined where the stretch of
 * the budget is over and more places follow. The first frontend that there is no room for, and all
 * that follow, are left out.
 */
export function* frontendsOf(
  service: Service,
  slices: readonly EndpointSlice[],
  node: NodeContext,
  settings: FrontendSettings = {},
  { owner, budget, room }: Turn = NO_LIMITS,
): Generator<Frontend | undefined, Contribution, void> {
  const limit = settings.maxFrontends ?? Number.POSITIVE_INFINITY
  const problems = new ProblemList()
  const frontends = new Map<FrontendKey, Frontend>()
  const choices = choicesOf(service, settings, problems)
  const sourceRanges = parseCidrs(service.sourceRanges)
  const families = familiesOf(service, choices, sourceRanges, node, settings, problems)
  const joined = yield* JoinedSlices.of(slices, node.nodeName, budget)
  const ports = new ServicePorts(service, joined, node, settings.maxCost?.() ?? Number.POSITIVE_INFINITY, budget)
  const costs = new CostCount(settings.costs ?? VIRTUAL_SERVER_COSTS)
  const left = { places: limit, sourceRanges: limit }
  let tooLarge = 0
  let shortage: Shortage | undefined
  for (const place of placesOf(service, families)) {
    // Counts every place, even one that gets no frontend: this bounds the work.
    if (left.places-- <= 0) break
    if (budget.spent()) yield undefined
    const servicePort = shortage === undefined ? yield* ports.of(place.spec, place.family) : undefined
    const frontend = servicePort && makeFrontend(servicePort, place, node)
    const before = frontend && frontends.get(frontend.key)
    const ranges = frontend?.firewall?.ranges.length ?? 0
    if (frontend !== undefined && before !== undefined) {
      if (before.servicePort.name !== frontend.servicePort.name) problems.add(conflict(before, frontend))
    } else if (ranges > left.sourceRanges) tooLarge++
    else if (frontend !== undefined && room.allows(owner, costs.with(frontend))) {
      left.sourceRanges -= ranges
      costs.add(frontend)
      frontends.set(frontend.key, frontend)
      yield frontend
    } else {
      const cost = costs.estimate(ports.entriesOf(place.spec, place.family))
      const next = frontend === undefined ? costs.total + cost : costs.with(frontend)
      shortage =
        shortage === undefined
          ? { frontends: 1, wants: Math.max(next, costs.total + cost), next }
          : { ...shortage, frontends: shortage.frontends + 1, wants: shortage.wants + cost }
    }
  }
  reportOtherFamilies(service, problems)
  for (const problem of sourceRangeProblems(service, sourceRanges)) problems.add(problem)
  const all = left.places < 0 ? countPlaces(service, families) : frontends.size + tooLarge + (shortage?.frontends ?? 0)
  const leftOut = (left.places < 0 ? all - limit : 0) + tooLarge
  const limits: Problem[] = []
  if (shortage !== undefined) limits.push(noRoom(service, shortage.frontends, all, settings))
  if (leftOut > 0) limits.push(tooMany(service, leftOut, all, limit))
  return {
    frontends,
    problems: limits.length === 0 ? problems.problems : [...limits, ...problems.problems],
    choices,
    reads: readsOf(service, families, node, settings) | (choices.weights?.reads ?? 0) | ports.reads,
    cost: costs.total,
    shortage,
  }
}

/** READS_* bits, without those of the ports. */
function readsOf(
  service: Service,
  families: readonly FamilyOfService[],
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
    `${leftOut} of ${all} frontends are left out: a Service may have ${limit} on a node, and as many source ranges at all of ` +
    'them together (kubeIPVS.maxFrontendsPerService)'
  return {
    code: 'too-many-frontends',
    about: 'object',
    subject: `service ${namespace}/${name}`,
    field: 'spec',
    message,
  }
}

function noRoom({ namespace, name }: Service, leftOut: number, all: number, { maxCost }: FrontendSettings): Problem {
  const message =
    `${leftOut} of ${all} frontends are left out: the node has room for ${maxCost?.()} real servers ` +
    `(kubeIPVS.maxRealServers), and the Services of namespace ${namespace} have their share of it`
  return { code: 'no-room', about: 'object', subject: `service ${namespace}/${name}`, field: 'spec', message }
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
    to.add({ code: 'invalid-annotation', about: 'object', subject: `service ${namespace}/${name}`, ...problem })
  return choices
}

function familiesOf(
  service: Service,
  choices: ServiceChoices,
  sourceRanges: readonly Cidr[],
  node: NodeContext,
  settings: FrontendSettings,
  problems: ProblemList,
): readonly FamilyOfService[] {
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
      choices,
      family,
      clusterIp,
      vips: ownVips,
      externalIps: ofFamily(externalIps),
      ignored: ignored.filter(isOwn).length,
      ignoresExternalIps: !usesExternalIps && service.externalIps.some(isOwn),
      nodePortPlaces: nodePorts === 'every-address' ? EVERY_ADDRESS : node.nodePortAddresses[family],
      firewall: ownVips.size === 0 ? undefined : rangesInForce(sourceRanges, family, node.nodeIps),
    }
  })
}

/** Two ports of one Service claim the same address, port and protocol. */
function conflict(winner: Frontend, loser: Frontend): Problem {
  const { namespace, name } = loser.servicePort.service
  return {
    code: 'frontend-conflict',
    about: 'object',
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
      problems.add({
        code: 'address-family',
        about: 'object',
        subject: `service ${service.namespace}/${service.name}`,
        field,
        message,
      })
    }
  }
  report('spec.externalIPs', service.externalIps)
  report('status.loadBalancer.ingress', service.loadBalancerVips)
}
