/**
 * The live IPVS table: the io of VIRTUAL_SERVERS. Reading one key takes two requests (service, then
 * destinations), because the list of the destinations of a service that does not exist is empty.
 * @impure
 */
import { runInBatches } from '../netlink/run-batches.ts'
import { parseFrontendKey } from '../service/frontends.ts'
import type { TableIo } from '../sync/table.ts'
import { type Cidr, contains } from '../values/cidr.ts'
import { newBudget } from '../values/event-loop.ts'
import type { DecodedDestination } from './codec-destinations.ts'
import type { IpvsBatch } from './batch.ts'
import type { IpvsConnection } from './connection.ts'
import { VIRTUAL_SERVERS, type VirtualServerKind } from './diff.ts'
import type { Connections } from './drains.ts'
import {
  compareRealServers,
  type RealServer,
  realServerKey,
  type RealServerKey,
  type VirtualServer,
  type VirtualServerFields,
  type VirtualServerId,
  virtualServerKey,
  type VirtualServerKey,
  type VirtualServerOperation,
} from './types.ts'

/** The requests that the table makes. */
type IpvsRequests = Pick<IpvsConnection, 'batch' | 'getService' | 'listDestinations' | 'listServices'>

export class VirtualServerTable implements TableIo<VirtualServer, VirtualServerOperation> {
  readonly kind: VirtualServerKind
  readonly #ipvs: IpvsRequests
  readonly #excluded: readonly Cidr[]
  readonly #isOwned: (key: VirtualServerKey) => boolean
  #batch: IpvsBatch | undefined

  /**
   * `excluded`: virtual servers with an address in one of these (excludeCIDRs) are never removed.
   * `isOwned`: a further condition for a removal. `kind`: one with an order of additions.
   */
  constructor(
    ipvs: IpvsRequests,
    excluded: readonly Cidr[],
    isOwned: (key: VirtualServerKey) => boolean = () => true,
    kind: VirtualServerKind = VIRTUAL_SERVERS,
  ) {
    this.kind = kind
    this.#ipvs = ipvs
    this.#excluded = excluded
    this.#isOwned = isOwned
  }

  isOurs(key: VirtualServerKey, live: VirtualServer): boolean {
    return this.#isOwned(key) && !this.#excluded.some((cidr) => contains(cidr, live.address))
  }

  async list(
    keys: readonly VirtualServerKey[] | 'all',
    signal: AbortSignal,
  ): Promise<Map<VirtualServerKey, VirtualServer>> {
    const found = new Map<VirtualServerKey, VirtualServer>()
    const budget = newBudget()
    for (const fields of keys === 'all' ? await this.#listed(signal) : keys.map(parseFrontendKey)) {
      const live = await this.#readOne(fields, signal)
      if (live !== undefined) found.set(virtualServerKey(live), live)
      if (budget.spent()) await budget.turn()
    }
    return found
  }

  /**
   * All virtual servers that have an address (those with a firewall mark are never ours), without
   * their real servers.
   */
  async #listed(signal: AbortSignal): Promise<VirtualServerFields[]> {
    const services = await this.#ipvs.listServices({ signal })
    return services.flatMap((service) => (service.kind === 'address' ? [service.fields] : []))
  }

  async #readOne(id: VirtualServerId | VirtualServerFields, signal: AbortSignal): Promise<VirtualServer | undefined> {
    const fields = 'scheduler' in id ? id : await this.#fieldsOf(id, signal)
    if (fields === undefined) return undefined
    const destinations = await this.#ipvs.listDestinations(fields, { signal })
    return { ...fields, realServers: sortedRealServers(destinations) }
  }

  async #fieldsOf(id: VirtualServerId, signal: AbortSignal): Promise<VirtualServerFields | undefined> {
    const service = await this.#ipvs.getService(id, { signal })
    return service?.kind === 'address' ? service.fields : undefined
  }

  apply(ops: readonly VirtualServerOperation[], signal: AbortSignal): Promise<readonly (Error | undefined)[]> {
    this.#batch ??= this.#ipvs.batch()
    const batch = this.#batch
    const sink = { encode: (op: VirtualServerOperation) => encode(batch, op), commit: () => batch.commit() }
    return runInBatches(ops, sink, signal)
  }

  /** Connections of each real server now; empty when there is no such virtual server. */
  async connections(key: VirtualServerKey, signal: AbortSignal): Promise<Map<RealServerKey, Connections>> {
    const destinations = await this.#ipvs.listDestinations(parseFrontendKey(key), { signal })
    return new Map(
      destinations.map(({ realServer, activeConnections, inactiveConnections }) => [
        realServerKey(realServer),
        { active: activeConnections, inactive: inactiveConnections },
      ]),
    )
  }
}

function encode(batch: IpvsBatch, op: VirtualServerOperation): void {
  switch (op.kind) {
    case 'add-virtual-server':
      return batch.addService(op.server)
    case 'edit-virtual-server':
      return batch.editService(op.server)
    case 'delete-virtual-server':
      return batch.deleteService(op.server)
    case 'add-real-server':
      return batch.addDestination(op.server, op.realServer)
    case 'edit-real-server':
      return batch.editDestination(op.server, op.realServer)
    case 'delete-real-server':
      return batch.deleteDestination(op.server, op.realServer)
  }
}

/** In key order, each once: the kernel makes a list in parts and may repeat a server. */
export function sortedRealServers(destinations: readonly DecodedDestination[]): RealServer[] {
  const sorted = destinations.map((destination) => destination.realServer).sort(compareRealServers)
  return sorted.filter((server, index) => {
    const before = sorted[index - 1]
    return before === undefined || compareRealServers(before, server) !== 0
  })
}
