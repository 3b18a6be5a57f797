/**
 * Connections of clients to an address, optionally to one port of it, through Services of this node. IPVS counts its own by
 * real server; those of rules, and UDP of both, are in the kernel's list of flows. After a switch of the mode a node may have both.
 * @impure
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ConntrackConnection } from '../conntrack/connection.ts'
import type { IpvsConnection } from '../ipvs/connection.ts'
import type { VirtualServerId } from '../ipvs/types.ts'
import { formatEndpoint } from '../values/address.ts'
import { CodedError } from '../values/errors.ts'
import { type IpFamily, IP_FAMILIES, type Protocol } from '../values/protocol.ts'

/** TCP and SCTP connections. */
export interface StreamCounts {
  /** Established, or being established. */
  readonly active: number
  /** The others that the kernel remembers: closing, half closed, or closed a short time ago (TIME_WAIT). */
  readonly inactive: number
}

const TURN_MS = 8
const STREAMS = ['tcp', 'sctp'] as const

export interface StreamSources {
  /** What IPVS counts; absent: the kernel has nothing of ipvs mode. */
  readonly inVirtualServers?: (() => Promise<StreamCounts>) | undefined
  /** Absent: the kernel does not list its flows. */
  readonly conntrack: Pick<ConntrackConnection, 'visitFlows'> | undefined
  readonly targets: ReadonlySet<string>
  /** Whether the kernel has rules of iptables mode. */
  readonly hasRules: boolean
  readonly signal: AbortSignal
}

/**
 * All connections to the targets. Without rules there are only flows from before a switch of the mode, which are read once IPVS has no
 * active connection, because the list is long. Rejects with `conntrack-missing` when there are rules and no list of flows.
 */
export async function countStreams(sources: StreamSources): Promise<StreamCounts> {
  const { inVirtualServers, conntrack, targets, hasRules, signal } = sources
  if (conntrack === undefined && hasRules)
    throw new CodedError(
      'conntrack-missing',
      'the kernel does not list its flows: load the module "nf_conntrack_netlink"',
    )
  const own = (await inVirtualServers?.()) ?? { active: 0, inactive: 0 }
  if (conntrack === undefined || (!hasRules && own.active > 0)) return own
  const byRules = await countFlowsTo(conntrack, STREAMS, targets, signal)
  return { active: own.active + byRules.active, inactive: own.inactive + byRules.inactive }
}

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

export async function allVirtualServers(
  ipvs: Pick<IpvsConnection, 'listServices'>,
  signal: AbortSignal,
): Promise<readonly VirtualServerId[]> {
  const services = await ipvs.listServices({ signal })
  return services.flatMap((service) => (service.kind === 'address' ? [service.fields] : []))
}

/**
 * The flows to the targets, by what IPVS would call them. Of TCP and SCTP only those whose destination a rule has translated, because IPVS
 * counts its own; of UDP those of both.
 */
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
        ({ original, reply }, { isActiveTcp, isByRule }) => {
          const isOfService = protocol === 'udp' ? original.destination !== reply.source : isByRule
          if (isOfService && isTarget(targets, reply.source, reply.sourcePort))
            // The state of SCTP flows is not read: each counts until the kernel forgets it.
            counted[isActiveTcp || protocol === 'sctp' ? 'active' : 'inactive']++
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
