/**
 * Changes of services and destinations, encoded as they are added and sent together: the hot path of every sync. A
 * commit sends at most 200 of them (MAX_BATCH_MESSAGES), and it empties the batch also when it rejects.
 */
import { MessageBatch } from '../netlink/batch.ts'
import type { CallOptions, Outcome } from '../netlink/connection.ts'
import { beginIpvs } from './codec.ts'
import type { IpvsCommand } from './codec-constants.ts'
import { encodeDestination, encodeDestinationId } from './codec-destination.ts'
import { encodeService, encodeServiceId, type ServiceFields, type ServiceId } from './codec-service.ts'
import type { RealServer } from './types.ts'

/** Identity of a destination inside its service. */
export type DestinationId = Pick<RealServer, 'address' | 'port'>

export class IpvsBatch {
  readonly #messages = new MessageBatch(32 << 10)
  readonly #familyId: () => number
  readonly #transact: (batch: MessageBatch, options: CallOptions) => Promise<readonly Outcome[]>

  constructor(
    familyId: () => number,
    transact: (batch: MessageBatch, options: CallOptions) => Promise<readonly Outcome[]>,
  ) {
    this.#familyId = familyId
    this.#transact = transact
  }

  /** IPVS_CMD_NEW_SERVICE; EEXIST when it is there. An unknown scheduler is ENOENT. */
  addService(fields: ServiceFields): void {
    this.#service('NEW_SERVICE', fields)
  }

  /** IPVS_CMD_SET_SERVICE: all fields but the identity; ESRCH when it is not there. */
  editService(fields: ServiceFields): void {
    this.#service('SET_SERVICE', fields)
  }

  /** IPVS_CMD_DEL_SERVICE with its destinations; ESRCH when it is not there. */
  deleteService(id: ServiceId): void {
    beginIpvs(this.#messages, this.#familyId(), 'DEL_SERVICE')
    encodeServiceId(this.#messages, id)
    this.#messages.end()
  }

  /** IPVS_CMD_NEW_DEST; ESRCH when the service is not there, EEXIST when the destination is. */
  addDestination(id: ServiceId, server: RealServer): void {
    this.#destination('NEW_DEST', id, server)
  }

  /** IPVS_CMD_SET_DEST; ESRCH when the service is not there, ENOENT when the destination is not. */
  editDestination(id: ServiceId, server: RealServer): void {
    this.#destination('SET_DEST', id, server)
  }

  /** IPVS_CMD_DEL_DEST; ESRCH when the service is not there, ENOENT when the destination is not. */
  deleteDestination(id: ServiceId, server: DestinationId): void {
    beginIpvs(this.#messages, this.#familyId(), 'DEL_DEST')
    encodeServiceId(this.#messages, id)
    encodeDestinationId(this.#messages, server)
    this.#messages.end()
  }

  /**
   * Sends everything in one datagram: the kernel has done it, in order, when this returns its promise. One outcome for
   * each change (undefined: done). Rejects as NetlinkConnection.transact, and with `genl-family-missing` when IPVS has gone.
   */
  async commit(options: CallOptions = {}): Promise<readonly Outcome[]> {
    try {
      return await this.#transact(this.#messages, options)
    } finally {
      this.#messages.reset()
    }
  }

  #service(command: IpvsCommand, fields: ServiceFields): void {
    beginIpvs(this.#messages, this.#familyId(), command)
    encodeService(this.#messages, fields)
    this.#messages.end()
  }

  #destination(command: IpvsCommand, id: ServiceId, server: RealServer): void {
    beginIpvs(this.#messages, this.#familyId(), command)
    encodeServiceId(this.#messages, id)
    encodeDestination(this.#messages, server)
    this.#messages.end()
  }
}
