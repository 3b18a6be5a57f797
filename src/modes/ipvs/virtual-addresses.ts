/**
 * Makes the node answer for virtual IPs: each is an address on kube-ipvs0 or a local route, by
 * `kubeIPVS.virtualAddresses`. When that setting changes, a virtual IP leaves one table only once
 * the other one has it, so that it is local at every moment.
 */
import { type AddressOperation, type BoundAddress, hostAddress } from '../../ipvs/address-diff.ts'
import { WantedAddresses } from '../../ipvs/addresses.ts'
import { localRoute, type LocalRoute, type RouteOperation, type RoutePath, sharedPaths } from '../../ipvs/route-diff.ts'
import type { FrontendKey } from '../../service/frontends.ts'
import type { NodeContext, NodeIps } from '../../service/node-context.ts'
import { type Reconciled, reconciled } from '../../sync/reconciled.ts'
import { TableSync } from '../../sync/table-sync.ts'
import { familyOf } from '../../values/address.ts'
import type { Log } from '../../values/log.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'
import type { VirtualAddressKind } from './firewall.ts'
import type { IpvsTables } from './tables.ts'

export class VirtualAddresses {
  readonly addresses: TableSync<BoundAddress, AddressOperation>
  readonly routes: TableSync<LocalRoute, RouteOperation>
  readonly #wanted = new WantedAddresses()
  /** Of frontends whose virtual server was not looked at yet: they are not removed before. */
  readonly #expected = new WantedAddresses()
  #kind: VirtualAddressKind = 'addresses'
  #sources: NodeIps = {}
  #paths: Readonly<Record<IpFamily, readonly RoutePath[] | undefined>>

  constructor(tables: Pick<IpvsTables, 'addresses' | 'routes'>) {
    this.#paths = pathsFrom({})
    this.addresses = new TableSync(tables.addresses, {
      onExamined: (address) => this.#examined('addresses', address),
      mayRemove: (address) => this.#mayRemove('addresses', address),
    })
    this.routes = new TableSync(tables.routes, {
      onExamined: (address) => this.#examined('routes', address),
      mayRemove: (address) => this.#mayRemove('routes', address),
    })
  }

  /** In creation order. */
  get tables(): readonly Reconciled[] {
    return [reconciled(this.addresses), reconciled(this.routes)]
  }

  get kind(): VirtualAddressKind {
    return this.#kind
  }

  /**
   * This frontend will want the node to answer for its address once its virtual server is there.
   * Until `set` or `expectNothing` an address that is there stays: after a restart the virtual
   * servers may be read later than the addresses.
   */
  expect(key: FrontendKey): void {
    this.#expected.set(key, true)
  }

  expectNothing(key: FrontendKey): void {
    const change = this.#expected.set(key, false)
    if (change === undefined) return
    for (const table of [this.addresses, this.routes])
      if (table.live(change.address) !== undefined) table.touch(change.address)
  }

  /** Sets whether this frontend wants the node to answer for its address. */
  set(key: FrontendKey, wanted: boolean): void {
    this.expectNothing(key)
    const change = this.#wanted.set(key, wanted)
    if (change === undefined) return
    if (change.wanted) this.#want(change.address)
    else {
      this.addresses.want(change.address, undefined)
      this.routes.want(change.address, undefined)
    }
  }

  /** Applies the setting. Costs nothing when it is the one in force. */
  use(kind: VirtualAddressKind): void {
    if (kind === this.#kind) return
    this.#kind = kind
    for (const address of this.#wanted.addresses()) {
      this.addresses.want(address, undefined)
      this.routes.want(address, undefined)
      this.#want(address)
    }
  }

  /**
   * Sets the addresses of the node that it uses itself towards virtual IPs with a route; each must
   * be on one of its interfaces.
   */
  setSources(sources: NodeIps): void {
    const families = (['IPv4', 'IPv6'] as const).filter((family) => sources[family] !== this.#sources[family])
    if (families.length === 0) return
    this.#sources = sources
    this.#paths = pathsFrom(sources)
    if (this.#kind !== 'routes') return
    for (const address of this.#wanted.addresses()) if (families.includes(familyOf(address))) this.#want(address)
  }

  /** What makes the node answer for an address. */
  wanted(key: string) {
    return this.#kind === 'addresses'
      ? ({ table: 'addresses', key, item: hostAddress(key) } as const)
      : ({ table: 'routes', key, item: localRoute(key, this.#paths[familyOf(key)]) } as const)
  }

  #want(address: string): void {
    const { table, item } = this.wanted(address)
    if (table === 'addresses') this.addresses.want(address, item)
    else this.routes.want(address, item)
  }

  #mayRemove(table: VirtualAddressKind, address: string): boolean {
    if (this.#expected.has(address)) return false
    const other = table === 'addresses' ? this.routes : this.addresses
    return other.desired(address) === undefined || other.live(address) !== undefined
  }

  /** What the other table may have waited for. */
  #examined(table: VirtualAddressKind, address: string): void {
    const [own, other] = table === 'addresses' ? [this.addresses, this.routes] : [this.routes, this.addresses]
    if (own.live(address) !== undefined && other.desired(address) === undefined && other.live(address) !== undefined)
      other.touch(address)
  }
}

function pathsFrom({ IPv4, IPv6 }: NodeIps): Readonly<Record<IpFamily, readonly RoutePath[] | undefined>> {
  return { IPv4: sharedPaths('IPv4', IPv4), IPv6: sharedPaths('IPv6', IPv6) }
}

/** Addresses in one line of the log. */
const LOGGED_ADDRESSES = 100

/** Logs removed addresses with the message and the fields of kube-proxy. */
export function unboundLogger(families: readonly IpFamily[], log: Log): (unbound: readonly string[]) => void {
  return (unbound) => {
    for (const ipFamily of families) {
      const all = unbound.filter((address) => familyOf(address) === ipFamily)
      const addresses = Object.fromEntries(all.slice(0, LOGGED_ADDRESSES).map((address) => [address, {}]))
      const more = all.length > LOGGED_ADDRESSES ? { more: all.length - LOGGED_ADDRESSES } : {}
      if (all.length > 0)
        log.verbose(2, 'Removing addresses', { ipFamily, interface: SERVICE_DEVICE, addresses, ...more })
    }
  }
}

/** The node IPs that an interface of the node has: Linux refuses another address as the source of a route. */
export function sourcesOf({ nodeIps, localAddresses }: NodeContext): NodeIps {
  const [ipv4, ipv6] = [nodeIps.IPv4, nodeIps.IPv6].map((ip) =>
    ip !== undefined && localAddresses.has(ip) ? ip : undefined,
  )
  return { ...(ipv4 === undefined ? {} : { IPv4: ipv4 }), ...(ipv6 === undefined ? {} : { IPv6: ipv6 }) }
}
