/**
 * The local routes that make this node answer for virtual IPs
 * (`kubeIPVS.virtualAddresses: routes`), as items and operations. Pure. A route of this program is
 * a host route of type local in the table local with the protocol ROUTE_PROTOCOL.
 */
import { type Route, RT_TABLE_LOCAL, RTN_LOCAL } from '../netlink/route-codec.ts'
import type { TableKind } from '../sync/table.ts'
import { ADDRESS_LENGTH, familyOf } from '../values/address.ts'
import type { IpFamily } from '../values/protocol.ts'

/** Marks the routes of this program (rtm_protocol). Linux assigns no meaning to this number in rtnetlink.h. */
export const ROUTE_PROTOCOL = 73
/**
 * The index of the loopback interface, which is the same in every network namespace. The routes
 * belong to it rather than to kube-ipvs0: Linux deletes all IPv4 routes of an interface with its
 * last address, and refuses IPv6 routes of one that is down.
 */
export const LOOPBACK_INDEX = 1
/** Priority of the routes: what the kernel uses when a request names none (IP6_RT_PRIO_USER for IPv6). */
const PRIORITY: Readonly<Record<IpFamily, number>> = { IPv4: 0, IPv6: 1024 }

/**
 * One route to a virtual IP. The kernel distinguishes two IPv4 routes by these fields, two IPv6
 * routes by all but the source.
 */
export interface RoutePath {
  readonly interfaceIndex: number
  /**
   * Address that the node itself uses towards the virtual IP (RTA_PREFSRC); undefined: the virtual
   * IP. IPv4 routes always name it, because a request to delete one without it deletes any.
   */
  readonly source?: string | undefined
  readonly priority: number
}

/** The routes of this program to one virtual IP. */
export interface LocalRoute {
  readonly address: string
  /** At least one, in the order of the kernel's list: the first one is used. */
  readonly paths: readonly RoutePath[]
}

export interface RouteOperation extends RoutePath {
  /** `replace` changes the source of an IPv6 route; there cannot be two that differ only in it. */
  readonly kind: 'add-route' | 'replace-route' | 'delete-route'
  readonly address: string
  /** The virtual IP keeps another route. */
  readonly isReplaced?: true
}

/**
 * The paths that all virtual IPs of a family share; undefined for IPv4 without a source, where each
 * has its own.
 * @param source an address of the node; undefined: none is known
 */
export function sharedPaths(family: IpFamily, source: string | undefined): readonly RoutePath[] | undefined {
  if (family === 'IPv4' && source === undefined) return undefined
  return [{ interfaceIndex: LOOPBACK_INDEX, source, priority: PRIORITY[family] }]
}

/** The route that is wanted for a virtual IP. */
export function localRoute(address: string, shared: readonly RoutePath[] | undefined): LocalRoute {
  return { address, paths: shared ?? sharedPaths(familyOf(address), address) ?? [] }
}

/** Whether a route was made by this program. */
export function isOwnRoute({ family, prefixLength, table, type, protocol }: Route): boolean {
  return (
    protocol === ROUTE_PROTOCOL &&
    table === RT_TABLE_LOCAL &&
    type === RTN_LOCAL &&
    prefixLength === 8 * ADDRESS_LENGTH[family]
  )
}

export function pathOf({ outInterfaceIndex = 0, preferredSource, priority = 0 }: Route): RoutePath {
  return { interfaceIndex: outInterfaceIndex, source: preferredSource, priority }
}

/** The routes of this program by virtual IP, from a list of the kernel. */
export function liveRoutes(listed: Iterable<Route>): Map<string, LocalRoute> {
  const found = new Map<string, LocalRoute>()
  for (const route of listed) {
    if (!isOwnRoute(route)) continue
    const address = route.destination
    found.set(address, { address, paths: [...(found.get(address)?.paths ?? []), pathOf(route)] })
  }
  return found
}

export function hasPath(live: LocalRoute | undefined, path: RoutePath): boolean {
  return live?.paths.some((it) => isSamePath(it, path)) ?? false
}

function isSameRoute(a: LocalRoute, b: LocalRoute): boolean {
  if (a.paths === b.paths) return true
  return (
    a.paths.length === b.paths.length &&
    a.paths.every((path, index) => {
      const other = b.paths[index]
      return other !== undefined && isSamePath(path, other)
    })
  )
}

function isSamePath(a: RoutePath, b: RoutePath): boolean {
  return isSameSlot(a, b) && a.source === b.source
}

function isSameSlot(a: RoutePath, b: RoutePath): boolean {
  return a.interfaceIndex === b.interfaceIndex && a.priority === b.priority
}

/**
 * Operations that leave one route to a virtual IP, or none. The new route exists before others are
 * deleted, so that the virtual IP is local at every moment.
 */
export function diffRoute(desired: LocalRoute | undefined, live: LocalRoute | undefined): readonly RouteOperation[] {
  if (desired === live) return []
  const address = desired?.address ?? live?.address ?? ''
  const ops: RouteOperation[] = []
  const rest = new Set(live?.paths)
  for (const path of desired?.paths ?? []) {
    const same = Array.from(rest).find((it) => isSamePath(it, path))
    const slot = familyOf(address) === 'IPv6' ? Array.from(rest).find((it) => isSameSlot(it, path)) : undefined
    if (same !== undefined) rest.delete(same)
    else if (slot !== undefined) {
      rest.delete(slot)
      ops.push({ kind: 'replace-route', address, ...path })
    } else ops.push({ kind: 'add-route', address, ...path })
  }
  for (const path of rest)
    ops.push({ kind: 'delete-route', address, ...path, ...(desired === undefined ? {} : { isReplaced: true }) })
  return ops
}

/** The live routes after one successful operation. Linux puts an added IPv4 route before those that exist. */
function stepRoute(live: LocalRoute | undefined, op: RouteOperation): LocalRoute | undefined {
  const { kind, address, interfaceIndex, source, priority } = op
  const path = { interfaceIndex, source, priority }
  const before = live?.paths ?? []
  switch (kind) {
    case 'add-route':
      return { address, paths: [path, ...before] }
    case 'replace-route':
      return { address, paths: before.map((it) => (isSameSlot(it, path) ? path : it)) }
    case 'delete-route': {
      const paths = before.filter((it) => !isSamePath(it, path))
      return paths.length === 0 ? undefined : { address, paths }
    }
  }
}

/** The operation as an `ip` command, with the loopback interface by its name. */
export function formatRouteOperation({ kind, address, interfaceIndex, source, priority }: RouteOperation): string {
  const isIpv6 = familyOf(address) === 'IPv6'
  const verb = { 'add-route': isIpv6 ? 'add' : 'prepend', 'replace-route': 'replace', 'delete-route': 'delete' }[kind]
  const device = interfaceIndex === LOOPBACK_INDEX ? 'dev lo' : `oif ${interfaceIndex}`
  const from = source === undefined ? '' : ` src ${source}`
  const metric = priority === PRIORITY[familyOf(address)] ? '' : ` metric ${priority}`
  return `ip ${isIpv6 ? '-6 ' : ''}route ${verb} local ${address} ${device} table local${from}${metric} proto ${ROUTE_PROTOCOL}`
}

/** Key: the virtual IP. */
export const ROUTES: TableKind<LocalRoute, RouteOperation> = {
  name: 'routes',
  key: (op) => op.address,
  diff: (_key, desired, live) => diffRoute(desired, live),
  equal: isSameRoute,
  step: stepRoute,
  direction: (op) => (op.kind === 'delete-route' ? 'remove' : 'add'),
  text: formatRouteOperation,
}
