/**
 * What a Service costs a node, counted in real servers, and what it may cost. A real server takes
 * about 0.6 KiB of the kernel's memory and 40 bytes for each processor, and up to 0.8 KiB of ours;
 * a frontend without any 0.7 KiB and up to 4 KiB of ours, so it counts as several real servers.
 */
import type { PortEndpoints, ServicePort } from './service-port.ts'
import type { Frontend } from './frontends.ts'

/** How a mode writes frontends. */
export interface Costs {
  /** An endpoint counts as so many real servers. */
  readonly endpoint: number
  /** Whether each frontend has all endpoints, or all frontends of a Service port have them together. */
  readonly shared: boolean
}

/** Each frontend has a virtual server with its real servers. */
export const VIRTUAL_SERVER_COSTS: Costs = { endpoint: 1, shared: false }
/** A Service port has chains for its endpoints, of which each takes as much memory as five real servers of IPVS. */
export const CHAIN_COSTS: Costs = { endpoint: 5, shared: true }

/** A frontend counts as so many real servers at least. */
const LEAST_COST = 5

/** What Services may cost. */
export interface Room {
  /**
   * Whether a Service (`namespace/name`) may cost so much altogether, while it is computed. If so,
   * it is counted from then on.
   */
  allows(owner: string, total: number): boolean
}

/** What a Service lacks because the node has no more room. */
export interface Shortage {
  /** Frontends that are left out. */
  readonly frontends: number
  /** What the Service would cost, or more: the endpoints of what is left out are not selected. */
  readonly wants: number
  /** What it costs with the first frontend that is left out. */
  readonly next: number
}

/** Counts the frontends of one Service. */
export class CostCount {
  readonly #costs: Costs
  /** Lists with endpoints that are not used, and, where they are shared, ports. */
  #counted: Set<PortEndpoints['candidates'] | ServicePort> | undefined
  /** What the frontends so far cost. */
  total = 0

  constructor(costs: Costs) {
    this.#costs = costs
  }

  /** What the Service costs with this frontend. */
  with({ servicePort, selection, firewall }: Frontend): number {
    const { candidates, cluster } = servicePort
    const { shared, endpoint } = this.#costs
    const endpoints = shared ? cluster.endpoints : selection.endpoints
    const isCounted = shared && this.#counted?.has(servicePort) === true
    const own = Math.max(LEAST_COST, isCounted ? 0 : endpoints.length * endpoint)
    // Endpoints that are not used take memory, too.
    const unused = candidates.length - cluster.endpoints.length
    const more = unused === 0 || this.#counted?.has(candidates) === true ? 0 : unused
    return this.total + own + more + (firewall?.ranges.length ?? 0)
  }

  /** Counts the frontend. */
  add(frontend: Frontend): void {
    this.total = this.with(frontend)
    const { servicePort } = frontend
    const { candidates, cluster } = servicePort
    if (this.#costs.shared) this.#count(servicePort)
    if (candidates.length > cluster.endpoints.length) this.#count(candidates)
  }

  #count(what: PortEndpoints['candidates'] | ServicePort): void {
    this.#counted ??= new Set()
    this.#counted.add(what)
  }

  /** What a frontend with so many entries in its slices may cost, one that is not made. */
  estimate(entries: number): number {
    return Math.max(LEAST_COST, entries * this.#costs.endpoint)
  }
}
