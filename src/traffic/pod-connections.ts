/**
 * Connections of clients to endpoints, all of an address or of an address and port, through Services of this node: counted by real servers in ipvs mode, and in the
 * kernel's list of flows in iptables mode and for UDP.
 * @impure
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ConntrackConnection } from '../conntrack/connection.ts'
import type { IpvsConnection } from '../ipvs/connection.ts'
import type { VirtualServerId } from '../ipvs/types.ts'
import { formatEndpoint } from '../values/address.ts'
import { type IpFamily, IP_FAMILIES, type Protocol } from '../values/protocol.ts'

/** TCP and SCTP connections. */
export interface StreamCounts {
  /** Established, or being established. */
  readonly active: number
  /** The others that the kernel remembers: closing, half closed, or closed a short time ago (TIME_WAIT). */
  readonly inactive: number
}

const TURN_MS = 8

/** The connections to the targets (IPs, or `IP:port`) in these virtual servers, and which of these have such a real server. UDP is left out. */
export async function countInVirtualServers(
  ipvs: Pick<IpvsConnection, 'listDestinations'>,
  servers: Iterable<VirtualServerId>,
  targets: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<StreamCounts & { readonly found: readonly VirtualServerId[] }> {
  const found: VirtualServerId[] = []
  let [active, inactive] = [0, 0]
  let turnMs = performance.now() + TURN_MS
  for (const id of servers) {
    if (id.protocol === 'udp') continue
    if (performance.now() > turnMs) {
      await nextTurn(undefined, { signal })
      turnMs = performance.now() + TURN_MS
    }
    const own = (await ipvs.listDestinations(id, { signal })).filter(({ realServer }) =>
      isTarget(targets, realServer.address, realServer.port),
    )
    if (own.length > 0) found.push(id)
    for (const { activeConnections, inactiveConnections } of own) {
      active += activeConnections
      inactive += inactiveConnections
    }
  }
  return { active, inactive, found }
}

/** The flows to the targets whose destination a Service has translated, by what IPVS would call them. */
export async function countFlowsTo(
  conntrack: Pick<ConntrackConnection, 'visitFlows'>,
  protocols: readonly Protocol[],
  targets: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<StreamCounts> {
  const total = { active: 0, inactive: 0 }
  for (const family of familiesOf(targets))
    for (const protocol of protocols) {
      let counted = { active: 0, inactive: 0 }
      const onRestart = (): void => {
        counted = { active: 0, inactive: 0 }
      }
      await conntrack.visitFlows(
        { family, protocol },
        ({ original, reply }, isActive) => {
          if (isTarget(targets, reply.source, reply.sourcePort) && original.destination !== reply.source)
            // The state of SCTP flows is not read: each counts until the kernel forgets it.
            counted[isActive || protocol === 'sctp' ? 'active' : 'inactive']++
        },
        { signal, onRestart, yieldAfterMs: TURN_MS },
      )
      total.active += counted.active
      total.inactive += counted.inactive
    }
  return total
}

function isTarget(targets: ReadonlySet<string>, address: string, port: number): boolean {
  return targets.has(address) || targets.has(formatEndpoint(address, port))
}

/** A text with two colons is of IPv6, with or without a port. */
function familiesOf(targets: ReadonlySet<string>): readonly IpFamily[] {
  const all = Array.from(targets, (target) => (/:.*:/.test(target) ? 'IPv6' : 'IPv4'))
  return IP_FAMILIES.filter((family) => all.includes(family))
}
