/**
 * The Service ports of one Service, each made when it is first needed. Ports whose endpoints are
 * the same share them and all that is selected from them. The limit counts entries of slices that
 * are worked through, because a port costs as much when none of its endpoints is used.
 */
import type { Budget, Work } from '../values/budget.ts'
import type { IpFamily } from '../values/protocol.ts'
import { type Endpoint, selectEndpoints } from './endpoints.ts'
import { type FamilyOfService, makeServicePort, type PortEndpoints, type ServicePort } from './service-port.ts'
import type { JoinedSlices, PortSources } from './joined-slices.ts'
import { type NodePlace, READS_NODE_PORT_ADDRESSES } from './node-context.ts'
import type { Service, ServicePortSpec } from './objects.ts'
import { endpointWeights } from './weights.ts'

const NONE: readonly Endpoint[] = []

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
    const acceptsHealthChecks = !hasChecks || this.#acceptsHealthChecks(spec, family.family)
    const port = endpoints && makeServicePort(spec, family, endpoints, { localReadyEndpoints, acceptsHealthChecks })
    made.set(spec, port)
    return port
  }

  /** How many entries the slices have for `spec`, used or not. */
  entriesOf({ protocol, name }: ServicePortSpec, { family }: FamilyOfService): number {
    return this.#joined.entriesOf(family, protocol, name)
  }

  #portsIn(family: FamilyOfService): Map<ServicePortSpec, ServicePort | undefined> {
    let ports = this.#ports.get(family)
    if (ports === undefined) {
      ports = new Map()
      this.#ports.set(family, ports)
    }
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
  #acceptsHealthChecks({ nodePort }: ServicePortSpec, family: IpFamily): boolean {
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
