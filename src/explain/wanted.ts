/**
 * What a mode wants in the kernel for one Service: rows of its tables, with the frontend or Service
 * port that needs each. The daemon tells them over its socket, so each item has a shape too. And
 * what follows for traffic when a firewall does not know that a frontend has a role, or knows a
 * role that it does not have.
 */
import type { SetEntry } from '../ipset/types.ts'
import type { Chain } from '../iptables/types.ts'
import type { BoundAddress } from '../ipvs/address-diff.ts'
import type { LocalRoute } from '../ipvs/route-diff.ts'
import type { RealServer, VirtualServer } from '../ipvs/types.ts'
import type { NftElement } from '../nftables/types.ts'
import type { Role } from '../service/policy.ts'
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

interface RoleWords {
  readonly absence: string
  readonly excess: string
}

const LOCAL: RoleWords = {
  absence: 'clients from outside are masqueraded, so that endpoints see the address of this node instead of theirs',
  excess: 'clients from outside keep their address, and answers of endpoints on other nodes do not come back',
}
const MASQUERADED: RoleWords = {
  absence: 'clients from outside are not masqueraded, so that answers of endpoints on other nodes do not come back',
  excess: 'clients are masqueraded that should keep their address',
}

const WORDS: Readonly<Record<Role, RoleWords>> = {
  hairpin: {
    absence: 'a pod of this node that reaches itself through the Service gets no answer',
    excess: 'a pod that reaches itself sees the address of this node',
  },
  'source-address': {
    absence: 'this node itself may not connect to the address',
    excess: 'this node itself may connect although no source range permits it',
  },
  'source-range': {
    absence: 'clients of this source range are dropped',
    excess: 'clients of this source range may connect although the Service does not permit them',
  },
  restricted: {
    absence: 'source ranges are not enforced: every client may connect',
    excess: 'clients are dropped unless a source range permits them',
  },
  'load-balancer-local': LOCAL,
  'load-balancer': MASQUERADED,
  'external-ip-local': LOCAL,
  'external-ip': MASQUERADED,
  'cluster-ip': {
    absence: 'clients that are no pods are not masqueraded, and a port of this address may be refused',
    excess: 'clients that are no pods are masqueraded',
  },
  'node-port-local': LOCAL,
  'node-port': MASQUERADED,
  'health-check': {
    absence: 'a firewall of this node may drop health checks of load balancers',
    excess: 'this node accepts health checks that no Service has',
  },
  'virtual-ip': {
    absence: 'ports of this address that no Service has reach processes of this node',
    excess: 'ports of this address are refused',
  },
}

export function absenceMeans(role: Role): string {
  return WORDS[role].absence
}

export function excessMeans(role: Role): string {
  return WORDS[role].excess
}
