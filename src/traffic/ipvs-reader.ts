/**
 * Reads the counters of virtual servers in one list, and those of real servers of chosen virtual
 * servers one by one, because the kernel lists real servers of one virtual server at a time.
 * @impure
 */
import type { CountedDestination } from '../ipvs/codec-destinations.ts'
import type { CountedVirtualServer } from '../ipvs/codec-servers.ts'
import type { IpvsConnection } from '../ipvs/connection.ts'
import { isDraining } from '../ipvs/drains.ts'
import { realServerKey, virtualServerKey } from '../ipvs/types.ts'
import { newBudget } from '../values/event-loop.ts'
import type { Protocol } from '../values/protocol.ts'
import { hasCounted, type PlaceSample, type RealServerSample, type Sample } from './sample.ts'

export interface IpvsReadOptions {
  /** The virtual servers whose real servers are read, in this order. */
  readonly choose: (sample: Sample) => readonly string[]
  /** No further real servers are read after this time in milliseconds; absent: all of them are. */
  readonly budgetMs?: number | undefined
  readonly signal: AbortSignal
}

/** The part of a connection that is needed. */
type Counted = Pick<IpvsConnection, 'listCountedServices' | 'listCountedDestinations'>

export async function readIpvs(
  ipvs: Counted,
  { choose, budgetMs = Number.POSITIVE_INFINITY, signal }: IpvsReadOptions,
): Promise<Sample> {
  const services = await ipvs.listCountedServices({ signal })
  const atMs = performance.now()
  const listed = new Map<string, CountedVirtualServer>()
  const places = new Map<string, PlaceSample>()
  for (const service of services) {
    const key = virtualServerKey(service.fields)
    listed.set(key, service)
    places.set(key, placeOf(service))
  }
  const listing: Sample = { mode: 'ipvs', atMs, places, unread: 0 }
  const lateMs = atMs + budgetMs
  // Answers of the kernel may be there at once, so a loop over them needs its own turns.
  const budget = newBudget()
  let unread = 0
  for (const key of choose(listing)) {
    const service = listed.get(key)
    const place = places.get(key)
    if (service === undefined || place === undefined) continue
    if (performance.now() > lateMs) {
      unread++
      continue
    }
    if (budget.spent()) await budget.turn()
    signal.throwIfAborted()
    const destinations = await ipvs.listCountedDestinations(service.fields, { signal })
    const realServers = new Map(destinations.map((one) => realServerOf(service.fields.protocol, one)))
    places.set(key, { ...place, realServers })
  }
  return { ...listing, unread }
}

function placeOf({ fields, traffic }: CountedVirtualServer): PlaceSample {
  return { addresses: [fields.address], traffic, isUsed: hasCounted(traffic), realServers: undefined }
}

function realServerOf(protocol: Protocol, destination: CountedDestination): readonly [string, RealServerSample] {
  const { realServer, traffic, activeConnections, inactiveConnections } = destination
  return [
    realServerKey(realServer),
    {
      traffic,
      isDraining: isDraining(protocol, realServer),
      active: activeConnections,
      inactive: inactiveConnections,
    },
  ]
}
