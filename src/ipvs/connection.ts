/**
 * The IPVS table through generic netlink, in our own terms: lists, single reads, and batches of
 * changes. ENOENT has two meanings here: "no such destination", and "no such family" (the module
 * was unloaded). The family is resolved again only when everything fails with ENOENT.
 * @impure
 */
import { MessageBatch } from '../netlink/batch.ts'
import type { NetlinkCounters } from '../netlink/exchange.ts'
import {
  type CallOptions,
  type DumpOptions,
  listVisited,
  type NetlinkConnection,
  type Outcome,
} from '../netlink/connection.ts'
import { KernelError } from '../netlink/errors.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { resolveFamily } from '../netlink/subsystems.ts'
import { beginIpvs, IpvsBatch } from './batch.ts'
import {
  type CountedDestination,
  decodeCountedDestination,
  type DecodedDestination,
  decodeDestination,
} from './codec-destinations.ts'
import {
  type CountedVirtualServer,
  decodeCountedService,
  type DecodedService,
  decodeService,
  decodeServiceTraffic,
  encodeServiceId,
  type ServiceId,
} from './codec-servers.ts'
import {
  decodeInfo,
  decodeTimeouts,
  encodeTimeouts,
  IPVS_GENL_NAME,
  type IpvsCommand,
  type IpvsInfo,
  type Timeouts,
} from './codec.ts'
import type { VirtualServerKey } from './types.ts'

export class IpvsConnection {
  /** Called when ip_vs was unloaded and loaded again: IPVS is empty, and its settings are the kernel's. */
  onMoved: () => void = () => undefined
  readonly #netlink: NetlinkConnection
  #familyId: number
  #unknownServices = 0
  /** Buffers for requests. The connection sends one at a time, but several may be encoded before. */
  readonly #spare: MessageBatch[] = []

  /**
   * Resolves the IPVS family. Rejects with `genl-family-missing` when the kernel has no IPVS. Takes
   * over the connection (NETLINK_GENERIC): it is closed with this one, also when this rejects.
   */
  static async open(netlink: NetlinkConnection, options: CallOptions = {}): Promise<IpvsConnection> {
    try {
      return new IpvsConnection(netlink, await resolveFamily(netlink, IPVS_GENL_NAME, options))
    } catch (error) {
      netlink.close()
      throw error
    }
  }

  private constructor(netlink: NetlinkConnection, familyId: number) {
    this.#netlink = netlink
    this.#familyId = familyId
  }

  /** Messages and datagrams so far. */
  get counters(): Readonly<NetlinkCounters> {
    return this.#netlink.counters
  }

  /**
   * All services without their counters. The kernel lists them in parts and loses its position when
   * services are added or removed in between, without an error: one may be missing or listed twice.
   * Confirm a difference with `getService`. Services of other protocols or families are left out
   * and counted (`unknownServices`).
   */
  listServices(options: DumpOptions = {}): Promise<DecodedService[]> {
    return listVisited((visit, dump) => this.visitServices(visit, dump), options)
  }

  /** Calls `visit` for each service that `listServices` would list, as they arrive. */
  async visitServices(visit: (service: DecodedService) => void, options: DumpOptions = {}): Promise<void> {
    let unknown = 0
    const decode = (message: ReceivedMessage): undefined => {
      const service = decodeService(message)
      if (service === undefined) unknown++
      else visit(service)
    }
    const onRestart = (): void => {
      unknown = 0
      options.onRestart?.()
    }
    await this.#dump('GET_SERVICE', undefined, decode, { ...options, onRestart })
    this.#unknownServices = unknown
  }

  /** Services that the last list left out, because no Service has their protocol or address family. */
  get unknownServices(): number {
    return this.#unknownServices
  }

  /**
   * Calls `visit` for each virtual server that has had connections, with connections, packets in
   * and out, bytes in and out. The next call overwrites the numbers. As in every list, a virtual
   * server may be missing or repeated.
   */
  async visitTraffic(
    visit: (key: VirtualServerKey, traffic: Float64Array) => void,
    options: DumpOptions = {},
  ): Promise<void> {
    const traffic = new Float64Array(5)
    const decode = (message: ReceivedMessage): undefined => {
      const key = decodeServiceTraffic(message, traffic)
      if (key !== undefined) visit(key, traffic)
    }
    await this.#dump('GET_SERVICE', undefined, decode, options)
  }

  /**
   * All virtual servers with their counters, those without connections too. As in every list, one
   * may be missing or repeated.
   */
  listCountedServices(options: DumpOptions = {}): Promise<CountedVirtualServer[]> {
    return this.#dump('GET_SERVICE', undefined, decodeCountedService, options)
  }

  /** The destinations of a service with their counters. Also empty when there is no such service. */
  listCountedDestinations(id: ServiceId, options: DumpOptions = {}): Promise<CountedDestination[]> {
    return this.#dump('GET_DEST', id, (message) => decodeCountedDestination(message, id.family), options)
  }

  /** The destinations of a service, without packet and byte counters. Also empty when there is no such service. */
  listDestinations(id: ServiceId, options: DumpOptions = {}): Promise<DecodedDestination[]> {
    return this.#dump('GET_DEST', id, (message) => decodeDestination(message, id.family), options)
  }

  /** One service; undefined when there is none (ESRCH), as where IPVS has no IPv6 (EAFNOSUPPORT). */
  async getService(id: ServiceId, options: CallOptions = {}): Promise<DecodedService | undefined> {
    try {
      return await this.#request('GET_SERVICE', id, decodeService, options)
    } catch (error) {
      if (error instanceof KernelError && (error.code === 'ESRCH' || error.code === 'EAFNOSUPPORT')) return undefined
      throw error
    }
  }

  /** A new, empty batch of changes. It can be used again after each commit. */
  batch(): IpvsBatch {
    return new IpvsBatch(
      () => this.#familyId,
      (batch, options) => this.#transact(batch, options),
    )
  }

  /** Connection timeouts (IPVS_CMD_GET_CONFIG). */
  getTimeouts(options: CallOptions = {}): Promise<Timeouts> {
    return this.#request('GET_CONFIG', undefined, decodeTimeouts, options)
  }

  /** Sets connection timeouts; 0 keeps the present value. */
  setTimeouts(timeouts: Timeouts, options: CallOptions = {}): Promise<void> {
    return this.#command('SET_CONFIG', (batch) => encodeTimeouts(batch, timeouts), options)
  }

  /** Version and size of the connection table. */
  info(options: CallOptions = {}): Promise<IpvsInfo> {
    return this.#request('GET_INFO', undefined, decodeInfo, options)
  }

  /** Closes the netlink connection; calls that run or wait reject with `netlink-closed`. */
  close(): void {
    this.#netlink.close()
  }

  async #transact(batch: MessageBatch, options: CallOptions): Promise<readonly Outcome[]> {
    const familyId = this.#familyId
    batch.retype(familyId)
    const outcomes = await this.#netlink.transact(batch, options)
    if (outcomes.length === 0 || !outcomes.every((outcome) => outcome?.code === 'ENOENT')) return outcomes
    // The kernel did nothing of the batch, so it may be sent again if the family has another number now.
    if (!(await this.#hasMoved(familyId, options))) return outcomes
    batch.retype(this.#familyId)
    return this.#netlink.transact(batch, options)
  }

  async #command(command: IpvsCommand, encode: (batch: MessageBatch) => void, options: CallOptions): Promise<void> {
    await this.#withRequest(async (batch) => {
      beginIpvs(batch, this.#familyId, command)
      encode(batch)
      batch.end()
      const [outcome] = await this.#transact(batch, options)
      if (outcome !== undefined) throw outcome
    })
  }

  #request<T>(
    command: IpvsCommand,
    id: ServiceId | undefined,
    decode: (message: ReceivedMessage) => T,
    options: CallOptions,
  ): Promise<T> {
    return this.#read(command, 'do', id, (batch) => this.#netlink.request(batch, decode, options), options)
  }

  #dump<T>(
    command: IpvsCommand,
    id: ServiceId | undefined,
    decode: (message: ReceivedMessage) => T | undefined,
    options: DumpOptions,
  ): Promise<T[]> {
    return this.#read(command, 'dump', id, (batch) => this.#netlink.dump(batch, decode, options), options)
  }

  #read<T>(
    command: IpvsCommand,
    mode: 'do' | 'dump',
    id: ServiceId | undefined,
    send: (batch: MessageBatch) => Promise<T>,
    options: CallOptions,
  ): Promise<T> {
    return this.#withRequest(async (batch) => {
      beginIpvs(batch, this.#familyId, command, mode)
      if (id !== undefined) encodeServiceId(batch, id)
      batch.end()
      const familyId = this.#familyId
      try {
        return await send(batch)
      } catch (error) {
        if (!(error instanceof KernelError && error.code === 'ENOENT')) throw error
        if (!(await this.#hasMoved(familyId, options))) throw error
        batch.retype(this.#familyId)
        return await send(batch)
      }
    })
  }

  /** Whether the family has another number now. Rejects with `genl-family-missing` when it does not exist any more. */
  async #hasMoved(familyId: number, options: CallOptions): Promise<boolean> {
    this.#familyId = await resolveFamily(this.#netlink, IPVS_GENL_NAME, options)
    if (this.#familyId === familyId) return false
    this.onMoved()
    return true
  }

  async #withRequest<T>(use: (batch: MessageBatch) => Promise<T>): Promise<T> {
    const batch = this.#spare.pop() ?? new MessageBatch(256)
    try {
      return await use(batch)
    } finally {
      batch.reset()
      this.#spare.push(batch)
    }
  }
}
