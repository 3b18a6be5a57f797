/**
 * What a mode wants in the kernel for one Service: rows of its tables, with the frontend or Service port that needs each. The daemon tells
 * them over its socket, so each item has a shape too.
 */
import type { SetEntry } from '../ipset/types.ts'
import type { Chain } from '../iptables/types.ts'
import type { BoundAddress } from '../ipvs/address-diff.ts'
import type { LocalRoute } from '../ipvs/route-diff.ts'
import type { RealServer, VirtualServer } from '../ipvs/types.ts'
import type { IpFamily, Protocol } from '../values/protocol.ts'
import { list, number, object, type Of, oneOf, optional, type Shape, text, word, yes } from '../values/shape.ts'

const realServer = object<RealServer>({
  address: text,
  port: number,
  weight: number,
  forwarding: word({ masquerade: true, local: true, tunnel: true, route: true, bypass: true, unknown: true }),
  upperThreshold: number,
  lowerThreshold: number,
})
const chain = object<Chain>({
  kind: word({ chain: true }),
  table: word({ nat: true, filter: true, mangle: true }),
  chain: text,
  rules: list(text),
})

/** The tables in which Services have items. */
const ITEMS = {
  'virtual-servers': object<VirtualServer>({
    family: word<IpFamily>({ IPv4: true, IPv6: true }),
    address: text,
    port: number,
    protocol: word<Protocol>({ tcp: true, udp: true, sctp: true }),
    scheduler: text,
    flags: number,
    timeoutSeconds: number,
    netmask: number,
    persistenceEngine: text,
    realServers: list(realServer),
  }),
  addresses: object<BoundAddress>({
    address: text,
    bindings: list(object<BoundAddress['bindings'][number]>({ prefixLength: number, peer: optional(text) })),
  }),
  routes: object<LocalRoute>({
    address: text,
    paths: list(
      object<LocalRoute['paths'][number]>({ interfaceIndex: number, source: optional(text), priority: number }),
    ),
  }),
  'set-entries': object<SetEntry>({ set: text, entry: text, noMatch: optional(yes) }),
  'chains-IPv4': chain,
  'chains-IPv6': chain,
}

export type ItemsOfServices = { readonly [Table in keyof typeof ITEMS]: Of<(typeof ITEMS)[Table]> }

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
  ([table, item]) => [table, object({ table: text, key: text, neededBy: text, item, isPart: optional(yes) })] as const,
)
export const WANTED = oneOf('table', Object.fromEntries(rows)) as Shape<Wanted> // one row for each of ITEMS
