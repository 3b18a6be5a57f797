/** The counters of real servers as a read of a virtual server lists them. */
import type { CountedDestination } from './codec-destinations.ts'
import { BYTES_IN, BYTES_OUT, CONNECTIONS, PACKETS_IN, PACKETS_OUT } from './codec-traffic.ts'
import type { Counters } from './outlier-evidence.ts'
import { realServerKey, type RealServerKey } from './types.ts'

export function countersOf(destinations: readonly CountedDestination[]): ReadonlyMap<RealServerKey, Counters> {
  return new Map(
    destinations.map(({ realServer, traffic, activeConnections, inactiveConnections }) => [
      realServerKey(realServer),
      {
        connections: traffic[CONNECTIONS] ?? 0,
        packetsIn: traffic[PACKETS_IN] ?? 0,
        packetsOut: traffic[PACKETS_OUT] ?? 0,
        bytesIn: traffic[BYTES_IN] ?? 0,
        bytesOut: traffic[BYTES_OUT] ?? 0,
        active: activeConnections,
        open: activeConnections + inactiveConnections,
      },
    ]),
  )
}
