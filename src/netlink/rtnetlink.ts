/**
 * Links, addresses and routes of this network namespace through rtnetlink.
 * What could break: the index of an interface is reused after it was deleted; hold names, look indexes up.
 */
import { decodeAddress, encodeDumpAddresses, type InterfaceAddress } from './address-codec.ts'
import { MessageBatch } from './batch.ts'
import type { CallOptions, DumpOptions, NetlinkConnection, NetlinkCounters, Outcome } from './connection.ts'
import { KernelError } from './errors.ts'
import { decodeDefaultGateways } from './gateway-codec.ts'
import {
  decodeLink,
  encodeCreateDummy,
  encodeDeleteLink,
  encodeDumpLinks,
  encodeGetLink,
  type Link,
} from './link-codec.ts'
import { decodeRoute, encodeDumpRoutes, type Route } from './route-codec.ts'

export class RtnetlinkConnection {
  readonly #netlink: NetlinkConnection

  /** Takes over a connection of NETLINK_ROUTE. */
  constructor(netlink: NetlinkConnection) {
    this.#netlink = netlink
  }

  /** Events that this connection causes carry this port id. */
  get portId(): number {
    return this.#netlink.portId
  }

  /** Messages and datagrams so far. */
  get counters(): Readonly<NetlinkCounters> {
    return this.#netlink.counters
  }

  listLinks(options: DumpOptions = {}): Promise<Link[]> {
    return this.#netlink.dump(one(encodeDumpLinks), decodeLink, options)
  }

  /**
   * The interface of that name; undefined when there is none. The kernel also finds an interface by its alternative names
   * (`ip link property add`, Linux 5.5), which do not count here.
   */
  async getLink(name: string, options: CallOptions = {}): Promise<Link | undefined> {
    try {
      const link = await this.#netlink.request(
        one((batch) => encodeGetLink(batch, name)),
        decodeLink,
        options,
      )
      return link.name === name ? link : undefined
    } catch (error) {
      if (error instanceof KernelError && error.code === 'ENODEV') return undefined
      throw error
    }
  }

  /** Creates a dummy interface, which is down. Rejects with KernelError EEXIST when the name is taken, by any kind. */
  createDummy(name: string, options: CallOptions = {}): Promise<void> {
    return this.#command(
      one((batch) => encodeCreateDummy(batch, name)),
      options,
    )
  }

  /** Deletes an interface with its addresses. Rejects with KernelError ENODEV when there is none. */
  deleteLink(index: number, options: CallOptions = {}): Promise<void> {
    return this.#command(
      one((batch) => encodeDeleteLink(batch, index)),
      options,
    )
  }

  /** Addresses of both families, of all interfaces or of one. */
  async listAddresses(options: DumpOptions & { readonly interfaceIndex?: number } = {}): Promise<InterfaceAddress[]> {
    const { interfaceIndex } = options
    const decode = (message: Parameters<typeof decodeAddress>[0]): InterfaceAddress | undefined => {
      const address = decodeAddress(message)
      // A kernel before 4.20 ignores the index in the request.
      return interfaceIndex === undefined || address?.interfaceIndex === interfaceIndex ? address : undefined
    }
    try {
      return await this.#netlink.dump(
        one((batch) => encodeDumpAddresses(batch, interfaceIndex)),
        decode,
        options,
      )
    } catch (error) {
      // With strict checking the kernel refuses the index of an interface that is gone; it has no addresses.
      if (interfaceIndex !== undefined && error instanceof KernelError && error.code === 'ENODEV') return []
      throw error
    }
  }

  /** Routes of all tables. */
  listRoutes(options: DumpOptions & { readonly family?: Route['family'] } = {}): Promise<Route[]> {
    return this.#netlink.dump(
      one((batch) => encodeDumpRoutes(batch, options.family)),
      decodeRoute,
      options,
    )
  }

  /** Gateways of the default routes of both families in all tables, each once. */
  async listDefaultGateways(options: DumpOptions = {}): Promise<readonly string[]> {
    const found = await this.#netlink.dump(
      one((batch) => encodeDumpRoutes(batch)),
      decodeDefaultGateways,
      options,
    )
    return Array.from(new Set(found.flat()))
  }

  /** Sends changes of links, addresses and routes, encoded by the caller; see NetlinkConnection.transact. */
  transact(batch: MessageBatch, options: CallOptions = {}): Promise<readonly Outcome[]> {
    return this.#netlink.transact(batch, options)
  }

  /** Closes the netlink connection; calls that run or wait reject with `netlink-closed`. */
  close(): void {
    this.#netlink.close()
  }

  async #command(request: MessageBatch, options: CallOptions): Promise<void> {
    const [outcome] = await this.#netlink.transact(request, options)
    if (outcome !== undefined) throw outcome
  }
}

/** A request of one message; none of these is on the hot path. */
function one(encode: (batch: MessageBatch) => void): MessageBatch {
  const batch = new MessageBatch(128)
  encode(batch)
  return batch
}
