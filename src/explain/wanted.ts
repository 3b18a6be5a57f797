/**
 * What a mode wants in the kernel for one Service: rows of its tables, with the frontend or Service
 * port that needs each. The daemon tells them over its socket, so each item has a shape too.
 */
import type { SetEntry } from '../ipset/types.ts'
import type { Chain } from '../iptables/types.ts'
import type { BoundAddress } from '../ipvs/address-diff.ts'
import type { LocalRoute } from '../ipvs/route-diff.ts'
import type { RealServer, VirtualServer } from '../ipvs/types.ts'
import type { NftElement } from '../nftables/types.ts'
import { byKind, list, number, object, oneOf, optional, type Read, type Shape, string, yes } from '../values/shape.ts'

const realServer: Shape<RealServer> = object({
  address: string,
  port: number,
  weight: number,
  forwarding: oneOf('masquerade', 'local', 'tunnel', 'route', 'bypass', 'unknown'),
  upperThreshold: number,
  lowerThreshold: number,
})
const chain: Shape<Chain> = object({
  kind: oneOf('chain'),
  table: oneOf('nat', 'filter', 'mangle'),
  chain: string,
  rules: list(string),
})

const virtualServer: Shape<VirtualServer> = object({
  family: oneOf('IPv4', 'IPv6'),
  address: string,
  port: number,
  protocol: oneOf('tcp', 'udp', 'sctp'),
  scheduler: string,
  flags: number,
  timeoutSeconds: number,
  netmask: number,
  persistenceEngine: string,
  realServers: list(realServer),
})
const boundAddress: Shape<BoundAddress> = object({
  address: string,
  bindings: list(object({ prefixLength: number, peer: optional(string) })),
})
const localRoute: Shape<LocalRoute> = object({
  address: string,
  paths: list(object({ interfaceIndex: number, source: optional(string), priority: number })),
})
const setEntry: Shape<SetEntry> = object({ set: string, entry: string, noMatch: optional(yes) })
const nftElement: Shape<NftElement> = object({
  kind: oneOf('element'),
  family: oneOf('IPv4', 'IPv6'),
  set: string,
  value: string,
  action: optional(object({ kind: oneOf('jump', 'goto'), chain: string })),
})

/** The tables in which Services have items. */
const ITEMS = {
  'virtual-servers': virtualServer,
  addresses: boundAddress,
  routes: localRoute,
  'set-entries': setEntry,
  nftables: nftElement,
  'chains-IPv4': chain,
  'chains-IPv6': chain,
}

export type ItemsOfServices = { readonly [Table in keyof typeof ITEMS]: Read<(typeof ITEMS)[Table]> }

export type ServiceTable = keyof ItemsOfServices

/** A row of one of these tables. */
export type Wanted<Table extends ServiceTable = ServiceTable> = {
  [T in Table]: {
    readonly table: T
    readonly key: string
    /** The frontend (`10.96.0.1:80/tcp`), or for chains the Service port (`demo/web:http`). */
    readonly neededBy: string
    readonly item: ItemsOfServices[T]
    /** All Services share the chain, and the item has one rule of this Service port alone. */
    readonly isPart?: true | undefined
  }
}[Table]

const rows = Object.entries<Shape<object>>(ITEMS).map(
  ([table, item]) =>
    [table, object({ table: string, key: string, neededBy: string, item, isPart: optional(yes) })] as const,
)
export const WANTED = byKind('table', Object.fromEntries(rows)) as Shape<Wanted> // one row for each of ITEMS
