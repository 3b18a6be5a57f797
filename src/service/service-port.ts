/**
 * One port of a Service in one family, with its endpoints selected: made once, when it is first
 * needed, so that nothing selects endpoints a second time. Ports whose endpoints are the same share
 * them and all that is selected from them.
 */
import type { Budget, Work } from '../values/budget.ts'
import { sameList } from '../values/lists.ts'
import type { IpFamily, Protocol } from '../values/protocol.ts'
import type { ServiceChoices } from './annotations.ts'
import { type Endpoint, type PortSelections, selectEndpoints, type Selection } from './endpoints.ts'
import type { JoinedSlices, PortSources } from './joined-slices.ts'
import { type NodePlace, READS_NODE_PORT_ADDRESSES } from './node-context.ts'
import type { Service, ServicePortSpec, SliceEndpoint } from './objects.ts'
import { type SourceRanges, sameSourceRanges } from './source-ranges.ts'
import { DEFAULT_WEIGHT, endpointWeights } from './weights.ts'

/** What all ports of one Service have in common in one family. */
export interface FamilyOfService {
  readonly choices: ServiceChoices
  readonly family: IpFamily
  readonly clusterIp: string
  readonly vips: ReadonlySet<string>
  readonly externalIps: ReadonlySet<string>
  /** Number of addresses beyond the limit of frontends, which were not examined. */
  readonly ignored: number
  readonly ignoresExternalIps: boolean
  /** The addresses of the frontends of a node port; undefined is every address of the node. */
  readonly nodePortPlaces: readonly (string | undefined)[]
  readonly firewall: SourceRanges | undefined
}

/** The endpoints of a Service port, selected. Ports of one Service with the same endpoints share it. */
export interface PortEndpoints extends PortSelections {
  /** All endpoints of the port, used or not. `verdicts[index]` of a selection is about `candidates[index]`. */
  readonly candidates: readonly Endpoint[]
  /**
   * The weights that the Service chooses: `weights[index]` is that of `candidates[index]`. Absent:
   * all have the same.
   */
  readonly weights?: readonly number[] | undefined
}

export interface ServicePort extends PortEndpoints {
  /** `namespace/name:port`, or `namespace/name` when the port has no name (Kubernetes' ServicePortName). */
  readonly name: string
  readonly family: IpFamily
  readonly protocol: Protocol
  /** 1-65535 */
  readonly port: number
  /** 1-65535; 0: the port has none. */
  readonly nodePort: number
  /**
   * The fields of the Service that `sameServicePort` compares. A frontend that did not change may
   * hold an older Service.
   */
  readonly service: Pick<
    Service,
    'namespace' | 'name' | 'createdAtMs' | 'healthCheckNodePort' | 'affinityTimeoutSeconds'
  >
  /** Compared with `===`. */
  readonly choices: ServiceChoices
  /**
   * The addresses in status.loadBalancer.ingress that this node permits, each once, in the order of
   * the Service. `sameServicePort` does not compare `vips` and `externalIps`, because each address
   * has a separate frontend.
   */
  readonly vips: ReadonlySet<string>
  /** The permitted addresses in spec.externalIPs. */
  readonly externalIps: ReadonlySet<string>
  /**
   * Whether the Service has external IPs in this family that the feature gate
   * AllowServiceExternalIPs turns off. kube-proxy in iptables mode still makes the chain for
   * external traffic then.
   */
  readonly ignoresExternalIps: boolean
  /** The sources that may connect to the VIPs; undefined: every source, or the port has no VIP. */
  readonly firewall: SourceRanges | undefined
  /**
   * Of a Service with a health check port: distinct addresses of its ready endpoints on this node
   * in this family, over all its ports. 0 for every other Service.
   */
  readonly localReadyEndpoints: number
  /** Whether the rules of ipvs mode accept packets to the health check port of the Service, if it has one. */
  readonly acceptsHealthChecks: boolean
}

const NO_WEIGHTS: readonly number[] = []

const NONE: readonly Endpoint[] = []

/**
 * The ports of one Service, each made when it is first asked for. The limit counts entries of
 * slices that are worked through, because a port costs as much when none of its endpoints is used.
 */
export class ServicePorts {
  readonly #service: Service
  readonly #joined: JoinedSlices
  readonly #node: NodePlace
  readonly #budget: Budget
  /** Undefined: the port is left out. */
  readonly #ports = new Map<FamilyOfService, Map<ServicePortSpec, ServicePort | undefined>>()
  readonly #endpoints = new Map<PortSources, PortEndpoints>()
  readonly #localReady: { [family in IpFamily]?: number } = {}
  /** Entries of slices that may still be worked through. */
  #entriesLeft: number
  #reads = 0

  /** @param maxEntries entries of slices that all ports together may have, shared ones counted once */
  constructor(service: Service, joined: JoinedSlices, node: NodePlace, maxEntries: number, budget: Budget) {
    this.#service = service
    this.#joined = joined
    this.#node = node
    this.#entriesLeft = maxEntries
    this.#budget = budget
  }

  /** READS_* bits of what the ports so far depend on. */
  get reads(): number {
    return this.#reads
  }

  /** The Service port of `spec`; undefined when it has more entries than are left. */
  *of(spec: ServicePortSpec, family: FamilyOfService): Work<ServicePort | undefined> {
    const made = this.#portsIn(family)
    if (made.has(spec)) return made.get(spec)
    const sources = this.#joined.sourcesOf(family.family, spec.protocol, spec.name)
    const endpoints = yield* this.#endpointsOf(sources, family)
    // kube-proxy answers health checks only for Services with a port for them.
    const hasChecks = this.#service.healthCheckNodePort !== 0
    const localReadyEndpoints = hasChecks ? yield* this.#localReadyIn(family.family) : 0
    const port = endpoints && this.#make(spec, family, endpoints, localReadyEndpoints)
    made.set(spec, port)
    return port
  }

  #make(
    { name, protocol, port, nodePort }: ServicePortSpec,
    { choices, family, vips, externalIps, ignoresExternalIps, firewall }: FamilyOfService,
    { candidates, cluster, local, internal, external, weights }: PortEndpoints,
    localReadyEndpoints: number,
  ): ServicePort {
    const service = this.#service
    return {
      name: `${service.namespace}/${service.name}${name === '' ? '' : `:${name}`}`,
      family,
      protocol,
      port,
      nodePort,
      service,
      choices,
      vips,
      externalIps,
      ignoresExternalIps,
      firewall,
      localReadyEndpoints,
      acceptsHealthChecks: service.healthCheckNodePort === 0 || this.#acceptsHealthChecks(nodePort, family),
      // Not spread: a cold start makes one for each port of the cluster.
      candidates,
      cluster,
      local,
      internal,
      external,
      weights,
    }
  }

  /** How many entries the slices have for `spec`, used or not. */
  entriesOf({ protocol, name }: ServicePortSpec, { family }: FamilyOfService): number {
    return this.#joined.entriesOf(family, protocol, name)
  }

  #portsIn(family: FamilyOfService): Map<ServicePortSpec, ServicePort | undefined> {
    let ports = this.#ports.get(family)
    if (ports === undefined) this.#ports.set(family, (ports = new Map()))
    return ports
  }

  /** Undefined when the port has more entries than are left. */
  *#endpointsOf(
    sources: PortSources | undefined,
    { choices: { weights } }: FamilyOfService,
  ): Work<PortEndpoints | undefined> {
    if (sources === undefined) return this.#select(NONE, weights && [])
    const known = this.#endpoints.get(sources)
    if (known !== undefined || sources.entries > this.#entriesLeft) return known
    this.#entriesLeft -= sources.entries
    const candidates = yield* this.#joined.endpoints(sources, this.#budget)
    const own = weights && (yield* endpointWeights(weights, candidates, this.#node, this.#budget))
    if (this.#budget.spent()) yield
    const endpoints = this.#select(candidates, own)
    this.#endpoints.set(sources, endpoints)
    return endpoints
  }

  #select(candidates: readonly Endpoint[], weights: readonly number[] | undefined): PortEndpoints {
    const { internalTrafficPolicy, externalTrafficPolicy } = this.#service
    const selected = selectEndpoints(internalTrafficPolicy, externalTrafficPolicy, candidates, this.#node)
    const { cluster, local, internal, external } = selected
    this.#reads |= cluster.reads
    return { candidates, cluster, local, internal, external, weights }
  }

  /**
   * As kube-proxy in ipvs mode: a port with a node port opens the health check port only where node
   * ports have an address.
   */
  #acceptsHealthChecks(nodePort: number, family: IpFamily): boolean {
    if (nodePort === 0) return true
    this.#reads |= READS_NODE_PORT_ADDRESSES
    return this.#node.localHealthChecks?.includes(family) !== true
  }

  *#localReadyIn(family: IpFamily): Work<number> {
    const known = this.#localReady[family]
    if (known !== undefined) return known
    const count = yield* this.#joined.localReadyEndpoints(family, this.#budget)
    this.#localReady[family] = count
    return count
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
 * Whether two values of one Service port have the same effect on every table, health check and
 * metric. Verdicts only explain, so they are not compared. If a table renders another field, add it
 * here.
 */
export function sameServicePort(a: ServicePort, b: ServicePort): boolean {
  return (
    a === b ||
    (a.name === b.name &&
      a.family === b.family &&
      a.protocol === b.protocol &&
      a.port === b.port &&
      a.nodePort === b.nodePort &&
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
      sameSourceRanges(a.firewall, b.firewall))
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

/** Whether two lists have the same addresses and ports. */
export function sameEndpoints(a: readonly Endpoint[], b: readonly Endpoint[]): boolean {
  if (a === b) return true
  if (a.length !== b.length) return false
  for (let index = 0; index < a.length; index++) {
    if (a[index]?.address !== b[index]?.address || a[index]?.port !== b[index]?.port) return false
  }
  return true
}

/**
 * Whether the endpoints of a port are the same and in the same state: hairpin entries depend on the
 * node of an endpoint, and a UDP flow ends when its endpoint no longer serves.
 */
function sameCandidates(a: readonly Endpoint[], b: readonly Endpoint[]): boolean {
  return sameEndpoints(a, b) && a.every(({ source }, index) => sameSource(source, b[index]?.source))
}

function sameSource(a: SliceEndpoint, b: SliceEndpoint | undefined): boolean {
  return a === b || (b !== undefined && a.nodeName === b.nodeName && a.serving === b.serving)
}
