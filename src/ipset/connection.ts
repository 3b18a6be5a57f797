/**
 * The ipset subsystem of nfnetlink: requests about sets and entries, in our own terms. Errors have
 * the kernel's names (`IPSET_ERR_BUSY`) and the command that failed.
 * @impure
 */
import { type MessageBatch, requestOf } from '../netlink/batch.ts'
import type { NetlinkCounters } from '../netlink/exchange.ts'
import {
  type CallOptions,
  type DumpOptions,
  listVisited,
  type NetlinkConnection,
  type Outcome,
} from '../netlink/connection.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { SetDefinition, SetName, SetType } from './catalogue.ts'
import { decodeEntries } from './codec-entry.ts'
import { decodeHeader } from './codec-header.ts'
import {
  decodeVersions,
  encodeCreate,
  encodeDestroy,
  encodeList,
  encodePair,
  encodeProtocol,
  encodeType,
  IPSET_PROTOCOL,
  type Versions,
} from './codec.ts'
import { familyOfSet, parametersOf, sameKind } from './diff.ts'
import { codeOf, ipsetError, named } from './errors.ts'
import type { ListedSet, SetEntry, SetParameters } from './types.ts'

/** What the tables ask of the kernel. */
export type SetRequests = Pick<
  IpsetConnection,
  'listSets' | 'getSet' | 'listEntries' | 'create' | 'destroy' | 'rename' | 'swap' | 'transact'
>

export class IpsetConnection {
  readonly #netlink: NetlinkConnection

  /**
   * Asks the kernel for its protocol. Rejects with `ipset-missing`, which names the module, or
   * `ipset-protocol`. Takes over the connection (NETLINK_NETFILTER): it is closed with this one,
   * also when this rejects.
   */
  static async open(netlink: NetlinkConnection, options: CallOptions = {}): Promise<IpsetConnection> {
    try {
      const ipset = new IpsetConnection(netlink)
      const { lowest, highest } = await ipset.#protocol(options)
      if (lowest > IPSET_PROTOCOL || highest < IPSET_PROTOCOL)
        throw ipsetError(
          'ipset-protocol',
          `the kernel speaks ipset protocol ${lowest} to ${highest}, not ${IPSET_PROTOCOL}`,
        )
      return ipset
    } catch (error) {
      netlink.close()
      throw error
    }
  }

  private constructor(netlink: NetlinkConnection) {
    this.#netlink = netlink
  }

  /** Messages and datagrams so far. */
  get counters(): Readonly<NetlinkCounters> {
    return this.#netlink.counters
  }

  async #protocol(options: CallOptions): Promise<Versions> {
    try {
      return await this.#netlink.request(
        requestOf(encodeProtocol),
        (message) => decodeVersions(message, 'PROTOCOL'),
        options,
      )
    } catch (cause) {
      // nfnetlink answers EINVAL for a subsystem that is not registered.
      if (codeOf(cause) !== 'EINVAL') throw cause
      throw ipsetError('ipset-missing', 'the kernel has no ipset: load the module "ip_set" (modprobe ip_set)', {
        cause,
      })
    }
  }

  /** Revisions of a type that the kernel has; undefined when it has no such type and cannot load it. */
  async typeRevisions(
    type: SetType,
    family: IpFamily | undefined,
    options: CallOptions = {},
  ): Promise<Versions | undefined> {
    const request = requestOf((batch) => encodeType(batch, type, family))
    try {
      return await this.#netlink.request(request, (message) => decodeVersions(message, 'TYPE'), options)
    } catch (cause) {
      const error = named(cause, `ask for the set type ${type}`)
      if (codeOf(error) === 'IPSET_ERR_FIND_TYPE') return undefined
      throw error
    }
  }

  /** Our sets of the network namespace without their entries, and what an interrupted replacement left behind. */
  listSets(options: DumpOptions = {}): Promise<ListedSet[]> {
    return this.#netlink.dump(
      requestOf((batch) => encodeList(batch, undefined, true)),
      (message) => decodeHeader(message, (name) => familyOfSet(name) !== undefined),
      options,
    )
  }

  /** One set without its entries; undefined when it does not exist. */
  async getSet(name: SetName, options: DumpOptions = {}): Promise<ListedSet | undefined> {
    const request = requestOf((batch) => encodeList(batch, name, true))
    try {
      const [set] = await this.#netlink.dump(request, (message) => decodeHeader(message), options)
      return set
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined
      throw named(error, `ipset list ${name}`)
    }
  }

  /** The entries of a set; undefined when there is no set of that name, type and family. */
  async listEntries(set: SetDefinition, options: DumpOptions = {}): Promise<SetEntry[] | undefined> {
    let exists = false
    const entries = await listVisited<SetEntry, DumpOptions>(async (visit, dump) => {
      exists = await this.visitEntries(set, visit, dump)
    }, options)
    return exists ? entries : undefined
  }

  /**
   * Calls `visit` for each entry of a set, as they arrive. Resolves to whether there is a set of
   * that name, type and family.
   */
  async visitEntries(
    set: SetDefinition,
    visit: (entry: SetEntry) => void,
    options: DumpOptions = {},
  ): Promise<boolean> {
    const wanted = parametersOf(set)
    let known = false
    const request = requestOf((batch) => encodeList(batch, set.name, false))
    try {
      await this.#netlink.dump(
        request,
        (message): undefined => {
          const header = decodeHeader(message)
          if (header !== undefined) known = sameKind(header, wanted)
          // Entries of another type have other parts and are not read.
          if (known) decodeEntries(message, set.name, visit)
        },
        options,
      )
      return known
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return false
      throw named(error, `ipset list ${set.name}`)
    }
  }

  /** IPSET_CMD_CREATE; see encodeCreate. */
  create(
    name: SetName,
    type: SetType,
    parameters: SetParameters,
    options: CallOptions & { readonly hashSize?: number; readonly exclusive?: boolean } = {},
  ): Promise<void> {
    const request = requestOf((batch) => encodeCreate(batch, name, type, parameters, options))
    return this.#command(request, `ipset create ${name} ${type}`, options)
  }

  /** IPSET_CMD_DESTROY; IPSET_ERR_BUSY while a rule refers to the set. A missing set is success. */
  destroy(name: SetName, options: CallOptions = {}): Promise<void> {
    return this.#command(
      requestOf((batch) => encodeDestroy(batch, name)),
      `ipset destroy ${name}`,
      options,
    )
  }

  /** IPSET_CMD_SWAP */
  swap(first: SetName, second: SetName, options: CallOptions = {}): Promise<void> {
    return this.#command(
      requestOf((batch) => encodePair(batch, 'SWAP', first, second)),
      `ipset swap ${first} ${second}`,
      options,
    )
  }

  /** IPSET_CMD_RENAME */
  rename(from: SetName, to: SetName, options: CallOptions = {}): Promise<void> {
    return this.#command(
      requestOf((batch) => encodePair(batch, 'RENAME', from, to)),
      `ipset rename ${from} ${to}`,
      options,
    )
  }

  /**
   * Sends messages that the caller encoded; see NetlinkConnection.transact. Outcomes do not have
   * ipset's error names yet.
   */
  transact(batch: MessageBatch, options: CallOptions = {}): Promise<readonly Outcome[]> {
    return this.#netlink.transact(batch, options)
  }

  /** Closes the netlink connection; calls that run or wait reject with `netlink-closed`. */
  close(): void {
    this.#netlink.close()
  }

  async #command(request: MessageBatch, about: string, options: CallOptions): Promise<void> {
    const [outcome] = await this.#netlink.transact(request, options)
    if (outcome !== undefined) throw named(outcome, about)
  }
}
