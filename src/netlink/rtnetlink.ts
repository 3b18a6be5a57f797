/**
 * Requests about links, addresses and routes of this network namespace through rtnetlink. The
 * kernel may reuse the index of a deleted interface: keep names and look indexes up.
 * @impure
 */
import { isMulticast } from '../values/address.ts'
import { decodeAddress, encodeDumpAddresses, type InterfaceAddress } from './address-codec.ts'
import { type MessageBatch, requestOf } from './batch.ts'
import type { NetlinkCounters } from './exchange.ts'
import { type CallOptions, type DumpOptions, listVisited, type NetlinkConnection, type Outcome } from './connection.ts'
import { KernelError } from './errors.ts'
import {
  decodeLink,
  encodeCreateDummy,
  encodeDeleteLink,
  encodeDumpLinks,
  encodeGetLink,
  type Link,
} from './link-codec.ts'
import type { ReceivedMessage } from './message.ts'
import {
  decodeGateways,
  decodeGatewayInterfaces,
  decodeRoute,
  encodeDumpRoutes,
  type Route,
  type RouteFilter,
} from './route-codec.ts'
import { decodeTunnelPeer, encodeDumpForwarding } from './neighbour-codec.ts'
import { decodePolicyRule, encodeDumpRules, type PolicyRule } from './policy-rules.ts'
import { decodeFoundRoute, encodeRouteLookup, type FoundRoute, type RouteLookup } from './route-lookup.ts'

export interface AddressListOptions extends DumpOptions {
  /** The addresses of this interface only. */
  readonly interfaceIndex?: number
}

export interface RouteListOptions extends DumpOptions {
  readonly family?: Route['family']
  readonly filter?: RouteFilter
}

/** Addresses, each once. */
export interface Gateways {
  readonly defaults: ReadonlySet<string>
  /** Those of default routes, too. */
  readonly all: ReadonlySet<string>
}

export class RtnetlinkConnection {
  readonly #netlink: NetlinkConnection

  /** Takes over a connection of NETLINK_ROUTE. */
  constructor(netlink: NetlinkConnection) {
    this.#netlink = netlink
  }

  /** Announcements of changes that this connection makes carry this port id. */
  get portId(): number {
    return this.#netlink.portId
  }

  /** Messages and datagrams so far. */
  get counters(): Readonly<NetlinkCounters> {
    return this.#netlink.counters
  }

  listLinks(options: DumpOptions = {}): Promise<Link[]> {
    return this.#netlink.dump(requestOf(encodeDumpLinks), decodeLink, options)
  }

  /**
   * The interface of that name; undefined when there is none. The kernel also finds an interface by
   * its alternative names (`ip link property add`, Linux 5.5), which are ignored here.
   */
  async getLink(name: string, options: CallOptions = {}): Promise<Link | undefined> {
    try {
      const link = await this.#netlink.request(
        requestOf((batch) => encodeGetLink(batch, name)),
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
      requestOf((batch) => encodeCreateDummy(batch, name)),
      options,
    )
  }

  /** Deletes an interface with its addresses. Rejects with KernelError ENODEV when there is none. */
  deleteLink(index: number, options: CallOptions = {}): Promise<void> {
    return this.#command(
      requestOf((batch) => encodeDeleteLink(batch, index)),
      options,
    )
  }

  /** Addresses of both families, of all interfaces or of one. */
  listAddresses(options: AddressListOptions = {}): Promise<InterfaceAddress[]> {
    return listVisited((visit, dump) => this.visitAddresses(visit, dump), options)
  }

  /** Calls `visit` for each address that `listAddresses` would list, as they arrive. */
  async visitAddresses(visit: (address: InterfaceAddress) => void, options: AddressListOptions = {}): Promise<void> {
    const { interfaceIndex } = options
    const decode = (message: ReceivedMessage): undefined => {
      const address = decodeAddress(message)
      // A kernel before 4.20 ignores the index in the request.
      if (address !== undefined && (interfaceIndex === undefined || address.interfaceIndex === interfaceIndex))
        visit(address)
    }
    try {
      await this.#netlink.dump(
        requestOf((batch) => encodeDumpAddresses(batch, interfaceIndex)),
        decode,
        options,
      )
    } catch (error) {
      // With strict checking the kernel refuses the index of a deleted interface, which has no addresses.
      if (interfaceIndex !== undefined && error instanceof KernelError && error.code === 'ENODEV') return
      throw error
    }
  }

  /** Routes of all tables, or those that agree with a filter. */
  listRoutes(options: RouteListOptions = {}): Promise<Route[]> {
    return listVisited((visit, dump) => this.visitRoutes(visit, dump), options)
  }

  /** Calls `visit` for each route that `listRoutes` would list, as they arrive. */
  async visitRoutes(visit: (route: Route) => void, options: RouteListOptions = {}): Promise<void> {
    const { family, filter } = options
    const agrees = (route: Route): boolean =>
      filter === undefined ||
      (route.table === filter.table && route.type === filter.type && route.protocol === filter.protocol)
    await this.#netlink.dump(
      requestOf((batch) => encodeDumpRoutes(batch, family, filter)),
      (message): undefined => {
        const route = decodeRoute(message)
        // A kernel before 4.20 ignores the filter of the request.
        if (route !== undefined && agrees(route)) visit(route)
      },
      options,
    )
  }

  /** Gateways of the routes of both families in all tables: of default routes, and of all. */
  async listGateways(options: DumpOptions = {}): Promise<Gateways> {
    const [defaults, all] = [new Set<string>(), new Set<string>()]
    await this.#netlink.dump(
      requestOf((batch) => encodeDumpRoutes(batch)),
      // Many routes have few gateways.
      (message): undefined => {
        const found = decodeGateways(message)
        for (const gateway of found?.gateways ?? []) {
          all.add(gateway)
          if (found?.isDefault === true) defaults.add(gateway)
        }
      },
      options,
    )
    return { defaults, all }
  }

  /**
   * Hosts to which programs have directed the packets of VXLAN devices. A device without a list of
   * hosts has a multicast group.
   */
  async listTunnelPeers(options: DumpOptions = {}): Promise<ReadonlySet<string>> {
    const peers = new Set<string>()
    await this.#netlink.dump(
      requestOf(encodeDumpForwarding),
      (message): undefined => {
        const peer = decodeTunnelPeer(message)
        if (peer !== undefined && !isMulticast(peer)) peers.add(peer)
      },
      options,
    )
    return peers
  }

  /** Indexes of the interfaces through which routes of both families lead to gateways. */
  async listGatewayInterfaces(options: DumpOptions = {}): Promise<ReadonlySet<number>> {
    const found = await this.#netlink.dump(
      requestOf((batch) => encodeDumpRoutes(batch)),
      decodeGatewayInterfaces,
      options,
    )
    return new Set(found.flat())
  }

  /** Rules of policy routing of both families, in the order in which the kernel reads them. */
  listPolicyRules(options: DumpOptions = {}): Promise<PolicyRule[]> {
    return this.#netlink.dump(requestOf(encodeDumpRules), decodePolicyRule, options)
  }

  /** How the kernel would route a packet. Rejects with KernelError when it would not: see encodeRouteLookup. */
  lookUpRoute(lookup: RouteLookup, options: CallOptions = {}): Promise<FoundRoute> {
    return this.#netlink.request(
      requestOf((batch) => encodeRouteLookup(batch, lookup)),
      decodeFoundRoute,
      options,
    )
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
