/**
 * Counts the connections to endpoints in this network namespace again and again, without a daemon. The first count reads every virtual
 * server; then those that have the endpoint, and all again from time to time and before it says that no connection is left.
 * @impure
 */
import type { ConntrackConnection } from '../conntrack/connection.ts'
import type { IpvsConnection } from '../ipvs/connection.ts'
import type { VirtualServerId } from '../ipvs/types.ts'
import { openIpvs, unlessMissing } from '../modes/ipvs/kernel.ts'
import { readModes } from '../modes/modes-in-kernel.ts'
import { CodedError } from '../values/errors.ts'
import { findConntrack } from './open-traffic.ts'
import {
  allVirtualServers,
  countFlowsTo,
  countInVirtualServers,
  countStreams,
  type StreamCounts,
} from './pod-connections.ts'

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
  readonly #hasRules: boolean
  readonly #withUdp: boolean
  #known: readonly VirtualServerId[] = []
  #fullMs = Number.NEGATIVE_INFINITY

  /**
   * Rejects with `no-services` when this network namespace has nothing of either mode: a count of 0 would then be wrong in most cases,
   * because it is not that of the node.
   */
  static async open(targets: readonly string[], withUdp: boolean, signal: AbortSignal): Promise<LocalConnections> {
    const { modes } = await readModes(signal)
    if (modes.length === 0)
      throw new CodedError(
        'no-services',
        'no daemon answers, and this network namespace has nothing of ipvs mode and no rules of iptables mode: is it that of the node?',
      )
    const conntrack = await findConntrack(signal)
    const ipvs = modes.includes('ipvs') ? await unlessMissing('ipvs-missing', () => openIpvs(signal)) : undefined
    return new LocalConnections({ targets, withUdp, ipvs, conntrack, hasRules: modes.includes('iptables') })
  }

  private constructor(parts: {
    readonly targets: readonly string[]
    readonly withUdp: boolean
    readonly ipvs: IpvsConnection | undefined
    readonly conntrack: ConntrackConnection | undefined
    readonly hasRules: boolean
  }) {
    this.#targets = new Set(parts.targets)
    this.#withUdp = parts.withUdp
    this.#ipvs = parts.ipvs
    this.#conntrack = parts.conntrack
    this.#hasRules = parts.hasRules
  }

  async count(signal: AbortSignal): Promise<ConnectionCounts> {
    const ipvs = this.#ipvs
    const { active, inactive } = await countStreams({
      inVirtualServers: ipvs === undefined ? undefined : () => this.#inVirtualServers(ipvs, signal),
      conntrack: this.#conntrack,
      targets: this.#targets,
      hasRules: this.#hasRules,
      signal,
    })
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

  async #inVirtualServers(ipvs: IpvsConnection, signal: AbortSignal): Promise<StreamCounts> {
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
