/**
 * The real servers of virtual servers as the kernel has them. It lists those of one virtual server
 * at a time, so that each look at many takes turns with other work.
 */
import type { DecodedDestination } from '../../ipvs/codec-destinations.ts'
import type { IpvsConnection } from '../../ipvs/connection.ts'
import { canDrain, type Connections, isDraining } from '../../ipvs/drains.ts'
import { realServerKey, type VirtualServerFields, type VirtualServerId, virtualServerKey } from '../../ipvs/types.ts'
import { formatEndpoint } from '../../values/address.ts'
import { newBudget } from '../../values/event-loop.ts'

/** A virtual server with its real servers. */
export interface ServersOf<Id> {
  readonly id: Id
  readonly destinations: readonly DecodedDestination[]
}

/** All virtual servers that have an address. */
export async function allVirtualServers(
  ipvs: Pick<IpvsConnection, 'listServices'>,
  signal: AbortSignal,
): Promise<readonly VirtualServerFields[]> {
  const services = await ipvs.listServices({ signal })
  return services.flatMap((service) => (service.kind === 'address' ? [service.fields] : []))
}

/** The real servers of each of these virtual servers; none of one that does not exist. */
export async function* realServersOf<Id extends VirtualServerId>(
  ipvs: Pick<IpvsConnection, 'listDestinations'>,
  ids: Iterable<Id>,
  signal: AbortSignal,
): AsyncGenerator<ServersOf<Id>, void, void> {
  // Answers of the kernel may be there at once, so a loop over them needs its own turns.
  const budget = newBudget()
  for (const id of ids) {
    if (budget.spent()) await budget.turn()
    signal.throwIfAborted()
    yield { id, destinations: await ipvs.listDestinations(id, { signal }) }
  }
}

export interface LiveDrain extends Connections {
  readonly virtualServer: string
  readonly realServer: string
}

/** The drains that the kernel has. */
export async function listDrains(
  ipvs: Pick<IpvsConnection, 'listServices' | 'listDestinations'>,
  signal: AbortSignal,
): Promise<readonly LiveDrain[]> {
  const drains: LiveDrain[] = []
  const ids = (await allVirtualServers(ipvs, signal)).filter(({ protocol }) => canDrain(protocol))
  for await (const { id, destinations } of realServersOf(ipvs, ids, signal))
    for (const { realServer, activeConnections: active, inactiveConnections: inactive } of destinations)
      if (isDraining(id.protocol, realServer))
        drains.push({ virtualServer: virtualServerKey(id), realServer: realServerKey(realServer), active, inactive })
  return drains
}

/** Whether an endpoint is one of the targets: IPs, or `IP:port`. */
export function isTarget(targets: ReadonlySet<string>, address: string, port: number): boolean {
  return targets.has(address) || targets.has(formatEndpoint(address, port))
}

/**
 * The connections to the targets in these virtual servers, and which of these have such a real
 * server. UDP is left out.
 */
export async function countInVirtualServers(
  ipvs: Pick<IpvsConnection, 'listDestinations'>,
  servers: readonly VirtualServerId[],
  targets: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<Connections & { readonly found: readonly VirtualServerId[] }> {
  const found: VirtualServerId[] = []
  let [active, inactive] = [0, 0]
  const streams = servers.filter(({ protocol }) => protocol !== 'udp')
  for await (const { id, destinations } of realServersOf(ipvs, streams, signal)) {
    const own = destinations.filter(({ realServer }) => isTarget(targets, realServer.address, realServer.port))
    if (own.length > 0) found.push(id)
    for (const { activeConnections, inactiveConnections } of own) {
      active += activeConnections
      inactive += inactiveConnections
    }
  }
  return { active, inactive, found }
}
