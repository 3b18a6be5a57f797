/**
 * Changes of services and destinations, encoded as they are added and sent together: the hot path
 * of every sync.
 * @impure
 */
import { MessageBatch } from '../netlink/batch.ts'
import type { CallOptions, Outcome } from '../netlink/connection.ts'
import { NLM_F_DUMP } from '../netlink/constants.ts'
import { encodeDestination, encodeDestinationId } from './codec-destinations.ts'
import { encodeService, encodeServiceId, type ServiceFields, type ServiceId } from './codec-servers.ts'
import { IPVS_CMD, IPVS_GENL_VERSION, IPVS_OPERATION, type IpvsCommand } from './codec.ts'
import type { RealServer } from './types.ts'

/** Starts an IPVS message, to which attributes and `end` are added. */
export function beginIpvs(
  batch: MessageBatch,
  familyId: number,
  command: IpvsCommand,
  mode: 'do' | 'dump' = 'do',
): void {
  const flags = mode === 'dump' ? NLM_F_DUMP : 0
  batch.beginGeneric(familyId, IPVS_CMD[command], IPVS_GENL_VERSION, flags, IPVS_OPERATION[command])
}

/** Identity of a destination inside its service. */
export type DestinationId = Pick<RealServer, 'address' | 'port'>

/** A commit sends at most 200 changes (MAX_BATCH_MESSAGES), and it empties the batch also when it rejects. */
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

  /** IPVS_CMD_NEW_SERVICE; EEXIST when the service exists. An unknown scheduler is ENOENT. */
  addService(fields: ServiceFields): void {
    this.#service('NEW_SERVICE', fields)
  }

  /** IPVS_CMD_SET_SERVICE: all fields but the identity; ESRCH when the service does not exist. */
  editService(fields: ServiceFields): void {
    this.#service('SET_SERVICE', fields)
  }

  /** IPVS_CMD_DEL_SERVICE with its destinations; ESRCH when the service does not exist. */
  deleteService(id: ServiceId): void {
    beginIpvs(this.#messages, this.#familyId(), 'DEL_SERVICE')
    encodeServiceId(this.#messages, id)
    this.#messages.end()
  }

  /** IPVS_CMD_NEW_DEST; ESRCH when the service does not exist, EEXIST when the destination does. */
  addDestination(id: ServiceId, server: RealServer): void {
    this.#destination('NEW_DEST', id, server)
  }

  /** IPVS_CMD_SET_DEST; ESRCH when the service does not exist, ENOENT when the destination does not. */
  editDestination(id: ServiceId, server: RealServer): void {
    this.#destination('SET_DEST', id, server)
  }

  /** IPVS_CMD_DEL_DEST; ESRCH when the service does not exist, ENOENT when the destination does not. */
  deleteDestination(id: ServiceId, server: DestinationId): void {
    beginIpvs(this.#messages, this.#familyId(), 'DEL_DEST')
    encodeServiceId(this.#messages, id)
    encodeDestinationId(this.#messages, server)
    this.#messages.end()
  }

  /**
   * Sends everything in one datagram, which the kernel executes in order before this returns its
   * promise. Resolves to one outcome for each change (undefined: success). Rejects as
   * NetlinkConnection.transact, and with `genl-family-missing` when IPVS was unloaded.
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
