/**
 * The conntrack table through ctnetlink: the flows that pass a test, and the deletion of single
 * flows. A dump of a busy node has a million flows; only those that pass are collected, up to the
 * caller's limit.
 * @impure
 */
import { MessageBatch, requestOf } from '../netlink/batch.ts'
import type { NetlinkCounters } from '../netlink/exchange.ts'
import type { CallOptions, DumpOptions, NetlinkConnection } from '../netlink/connection.ts'
import { runInBatches } from '../netlink/run-batches.ts'
import { CodedError } from '../values/errors.ts'
import {
  decodeFlow,
  decodeFlowState,
  decodeTableSize,
  encodeDeleteFlow,
  encodeDumpFlows,
  encodeTableSize,
  passes,
} from './codec.ts'
import type { Flow, FlowFilter, FlowState, TableSize } from './types.ts'

/** The result of a deletion of flows. */
export interface Deletion {
  readonly deleted: number
  /** Flows that no longer existed. */
  readonly vanished: number
  readonly failed: number
  /** The reason of the first failure. */
  readonly error: Error | undefined
}

/** The part of a connection that the removal of stale flows needs. */
export type FlowTable = Pick<ConntrackConnection, 'findFlows' | 'deleteFlows'>

export class ConntrackConnection {
  readonly #netlink: NetlinkConnection

  /**
   * Asks the kernel whether it has ctnetlink. Rejects with `conntrack-missing`, which names the
   * module, or with the KernelError EPERM. Takes over the connection (NETLINK_NETFILTER): it is
   * closed with this one, also when this rejects.
   */
  static async open(netlink: NetlinkConnection, options: CallOptions = {}): Promise<ConntrackConnection> {
    try {
      const conntrack = new ConntrackConnection(netlink)
      await conntrack.tableSize(options)
      return conntrack
    } catch (cause) {
      netlink.close()
      // nfnetlink answers EINVAL for a subsystem that is not registered.
      if (!(cause instanceof CodedError && cause.code === 'EINVAL')) throw cause
      const message =
        'the kernel does not list its flows: load the module "nf_conntrack_netlink" (modprobe nf_conntrack_netlink)'
      throw new CodedError('conntrack-missing', message, { cause })
    }
  }

  private constructor(netlink: NetlinkConnection) {
    this.#netlink = netlink
  }

  /** Messages and datagrams so far. */
  get counters(): Readonly<NetlinkCounters> {
    return this.#netlink.counters
  }

  /** The number of flows in this network namespace and its limit. */
  tableSize(options: CallOptions = {}): Promise<TableSize> {
    return this.#netlink.request(requestOf(encodeTableSize), decodeTableSize, options)
  }

  /**
   * Flows that pass the filter and `wanted`, up to `limit`: a caller that gets that many must call
   * again. A flow may be listed twice when the table changes during the dump.
   */
  findFlows(
    filter: FlowFilter,
    wanted: (flow: Flow) => boolean,
    options: DumpOptions & { readonly limit: number },
  ): Promise<Flow[]> {
    let left = options.limit
    return this.#netlink.dump(
      requestOf((batch) => encodeDumpFlows(batch, filter)),
      (message) => {
        if (left === 0) return undefined
        const flow = decodeFlow(message)
        if (flow === undefined || !passes(flow, filter) || !wanted(flow)) return undefined
        left--
        return flow
      },
      {
        ...options,
        onRestart: () => {
          left = options.limit
          options.onRestart?.()
        },
      },
    )
  }

  /**
   * Calls `visit` for each flow that passes the filter. When the dump starts again (`onRestart`),
   * flows are visited again.
   */
  async visitFlows(
    filter: FlowFilter,
    visit: (flow: Flow, state: FlowState) => void,
    options: DumpOptions = {},
  ): Promise<void> {
    await this.#netlink.dump(
      requestOf((batch) => encodeDumpFlows(batch, filter)),
      (message): undefined => {
        const flow = decodeFlow(message)
        if (flow !== undefined && passes(flow, filter)) visit(flow, decodeFlowState(message))
      },
      options,
    )
  }

  /** Deletes flows, each by its tuple and id. Rejects only when aborted. */
  async deleteFlows(flows: readonly Flow[], signal: AbortSignal): Promise<Deletion> {
    const batch = new MessageBatch()
    const sink = {
      encode: (flow: Flow) => encodeDeleteFlow(batch, flow),
      commit: async () => {
        try {
          return await this.#netlink.transact(batch)
        } finally {
          batch.reset()
        }
      },
    }
    let deleted = 0
    let vanished = 0
    let failed = 0
    let error: Error | undefined
    for (const outcome of await runInBatches(flows, sink, signal)) {
      if (outcome === undefined) deleted++
      else if (outcome instanceof CodedError && outcome.code === 'ENOENT') vanished++
      else {
        failed++
        error ??= outcome
      }
    }
    return { deleted, vanished, failed, error }
  }

  /** Closes the netlink connection; calls that run or wait reject with `netlink-closed`. */
  close(): void {
    this.#netlink.close()
  }
}
