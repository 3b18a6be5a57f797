/**
 * Connections of clients to an address, optionally to one port of it, through Services of this
 * node. IPVS counts its own by real server; those of rules, and UDP of both, are in the kernel's
 * list of flows. After a switch of the mode a node may have both.
 */
import type { ConntrackConnection } from '../../conntrack/connection.ts'
import type { IpvsConnection } from '../../ipvs/connection.ts'
import type { Connections } from '../../ipvs/drains.ts'
import type { VirtualServerId } from '../../ipvs/types.ts'
import { CodedError } from '../../values/errors.ts'
import { type IpFamily, IP_FAMILIES, type Protocol } from '../../values/protocol.ts'
import { type Look, openLook } from './look.ts'
import { allVirtualServers, countInVirtualServers, isTarget } from './virtual-servers.ts'

/**
 * TCP and SCTP connections: `active` are established or being established, `inactive` closing, or
 * closed a short time ago (TIME_WAIT).
 */
export interface ConnectionCounts extends Connections {
  /** Flows of UDP; null: not wanted, or unknown. */
  readonly udp: number | null
}

const STREAMS = ['tcp', 'sctp'] as const

export interface Counted {
  /** IPs, or `IP:port` */
  readonly targets: ReadonlySet<string>
  readonly withUdp: boolean
  /** What IPVS counts; absent: the kernel has nothing of ipvs mode. */
  readonly inVirtualServers: (() => Promise<Connections>) | undefined
  /** Whether the kernel has rules of iptables mode. */
  readonly hasRules: boolean
}

/** Rejects with `conntrack-missing` when there are rules and no list of flows. */
export async function countConnections(look: Look, counted: Counted, signal: AbortSignal): Promise<ConnectionCounts> {
  const { targets, withUdp } = counted
  const conntrack = await look.conntrack(signal)
  const { active, inactive } = await countStreams({ ...counted, conntrack, signal })
  const udp = withUdp && conntrack !== undefined ? await countFlowsTo(conntrack, ['udp'], targets, signal) : undefined
  return { active, inactive, udp: udp?.inactive ?? null }
}

export interface StreamSources extends Omit<Counted, 'withUdp'> {
  /** Absent: the kernel does not list its flows. */
  readonly conntrack: Pick<ConntrackConnection, 'visitFlows'> | undefined
  readonly signal: AbortSignal
}

/**
 * All connections to the targets. Without rules there are only flows from before a switch of the
 * mode, which are read once IPVS has no active connection, because the list is long. Rejects with
 * `conntrack-missing` when there are rules and no list of flows.
 */
export async function countStreams(sources: StreamSources): Promise<Connections> {
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

/**
 * The flows to the targets, by what IPVS would call them. Of TCP and SCTP only those whose
 * destination a rule has translated, because IPVS counts its own; of UDP those of both.
 */
export async function countFlowsTo(
  conntrack: Pick<ConntrackConnection, 'visitFlows'>,
  protocols: readonly Protocol[],
  targets: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<Connections> {
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
        { signal, onRestart },
      )
      total.active += counted.active
      total.inactive += counted.inactive
    }
  return total
}

/** A text with two colons is of IPv6, with or without a port. */
function familiesOf(targets: ReadonlySet<string>): readonly IpFamily[] {
  const all = Array.from(targets, (target) => (/:.*:/.test(target) ? 'IPv6' : 'IPv4'))
  return IP_FAMILIES.filter((family) => all.includes(family))
}

/** A full count at least this often, in milliseconds. */
const FULL_MS = 10_000

/**
 * Counts in this network namespace again and again, without a daemon. The first count reads every
 * virtual server; then those that have the endpoint, and all again from time to time and before it
 * says that no connection is left.
 */
export class LocalConnections {
  readonly #look: Look
  readonly #targets: ReadonlySet<string>
  readonly #withUdp: boolean
  readonly #hasRules: boolean
  readonly #ipvs: IpvsConnection | undefined
  #known: readonly VirtualServerId[] = []
  #fullMs = Number.NEGATIVE_INFINITY

  /**
   * Rejects with `no-services` when this network namespace has nothing of either mode: a count of 0
   * would then be wrong in most cases, because it is not that of the node.
   */
  static async open(targets: readonly string[], withUdp: boolean, signal: AbortSignal): Promise<LocalConnections> {
    const look = openLook()
    try {
      const modes = await look.modes(signal)
      if (modes.length === 0)
        throw new CodedError(
          'no-services',
          'no daemon answers, and this network namespace has nothing of ipvs mode and no rules of iptables mode: is it that of the node?',
        )
      const ipvs = modes.includes('ipvs') ? await look.ipvs(signal) : undefined
      return new LocalConnections(look, new Set(targets), withUdp, modes.includes('iptables'), ipvs)
    } catch (error) {
      look.close()
      throw error
    }
  }

  private constructor(
    look: Look,
    targets: ReadonlySet<string>,
    withUdp: boolean,
    hasRules: boolean,
    ipvs: IpvsConnection | undefined,
  ) {
    this.#look = look
    this.#targets = targets
    this.#withUdp = withUdp
    this.#hasRules = hasRules
    this.#ipvs = ipvs
  }

  count(signal: AbortSignal): Promise<ConnectionCounts> {
    const ipvs = this.#ipvs
    const counted: Counted = {
      targets: this.#targets,
      withUdp: this.#withUdp,
      hasRules: this.#hasRules,
      inVirtualServers: ipvs === undefined ? undefined : () => this.#inVirtualServers(ipvs, signal),
    }
    return countConnections(this.#look, counted, signal)
  }

  close(): void {
    this.#look.close()
  }

  async #inVirtualServers(ipvs: IpvsConnection, signal: AbortSignal): Promise<Connections> {
    if (performance.now() - this.#fullMs < FULL_MS) {
      const counts = await countInVirtualServers(ipvs, this.#known, this.#targets, signal)
      if (counts.active > 0) return counts
    }
    const counts = await countInVirtualServers(ipvs, await allVirtualServers(ipvs, signal), this.#targets, signal)
    this.#known = counts.found
    this.#fullMs = performance.now()
    return counts
  }
}
