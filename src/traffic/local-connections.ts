/**
 * Counts the connections to endpoints in this network namespace again and again, without a daemon. The first count reads every virtual
 * server; then those that have the endpoint, and all again from time to time and before it says that no connection is left.
 * @impure
 */
import type { ConntrackConnection } from '../conntrack/connection.ts'
import type { IpvsConnection } from '../ipvs/connection.ts'
import type { VirtualServerId } from '../ipvs/types.ts'
import { openIpvs } from '../modes/ipvs/kernel.ts'
import { CodedError } from '../values/errors.ts'
import { findConntrack, modeOfKernel } from './open-traffic.ts'
import { countFlowsTo, countInVirtualServers, type StreamCounts } from './pod-connections.ts'

export interface ConnectionCounts extends StreamCounts {
  /** Flows of UDP; null: not wanted, or unknown. */
  readonly udp: number | null
}

/** A full count at least this often, in milliseconds. */
const FULL_MS = 10_000

export class LocalConnections {
  readonly #targets: ReadonlySet<string>
  readonly #ipvs: IpvsConnection | undefined
  readonly #conntrack: ConntrackConnection | undefined
  readonly #withUdp: boolean
  #known: readonly VirtualServerId[] = []
  #fullMs = Number.NEGATIVE_INFINITY

  /**
   * Rejects with `no-services` when this network namespace has nothing of either mode: a count of 0 would then be wrong in most cases,
   * because it is not that of the node.
   */
  static async open(targets: readonly string[], withUdp: boolean, signal: AbortSignal): Promise<LocalConnections> {
    const mode = await modeOfKernel(signal)
    if (mode === undefined)
      throw new CodedError(
        'no-services',
        'no daemon answers, and this network namespace has no virtual servers and no rules of iptables mode: is it that of the node?',
      )
    const conntrack = withUdp || mode === 'iptables' ? await findConntrack(signal) : undefined
    if (mode === 'iptables' && conntrack === undefined)
      throw new CodedError(
        'conntrack-missing',
        'the kernel does not list its flows: load the module "nf_conntrack_netlink"',
      )
    const ipvs = mode === 'ipvs' ? await openIpvs(signal) : undefined
    return new LocalConnections(new Set(targets), withUdp, ipvs, conntrack)
  }

  private constructor(
    targets: ReadonlySet<string>,
    withUdp: boolean,
    ipvs: IpvsConnection | undefined,
    conntrack: ConntrackConnection | undefined,
  ) {
    this.#targets = targets
    this.#withUdp = withUdp
    this.#ipvs = ipvs
    this.#conntrack = conntrack
  }

  async count(signal: AbortSignal): Promise<ConnectionCounts> {
    const { active, inactive } = await this.#streams(signal)
    const udp =
      this.#withUdp && this.#conntrack !== undefined
        ? (await countFlowsTo(this.#conntrack, ['udp'], this.#targets, signal)).inactive
        : null
    return { active, inactive, udp }
  }

  close(): void {
    this.#ipvs?.close()
    this.#conntrack?.close()
  }

  async #streams(signal: AbortSignal): Promise<StreamCounts> {
    const ipvs = this.#ipvs
    if (ipvs === undefined) {
      if (this.#conntrack === undefined) return { active: 0, inactive: 0 }
      return countFlowsTo(this.#conntrack, ['tcp', 'sctp'], this.#targets, signal)
    }
    if (performance.now() - this.#fullMs < FULL_MS) {
      const counts = await countInVirtualServers(ipvs, this.#known, this.#targets, signal)
      if (counts.active > 0) return counts
    }
    const services = await ipvs.listServices({ signal })
    const all = services.flatMap((service) => (service.kind === 'address' ? [service.fields] : []))
    const counts = await countInVirtualServers(ipvs, all, this.#targets, signal)
    this.#known = counts.found
    this.#fullMs = performance.now()
    return counts
  }
}
