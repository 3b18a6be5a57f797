/**
 * The local routes to virtual IPs in the kernel: the io of ROUTES. Routes of other programs are
 * neither read nor removed.
 * @impure
 */
import { MessageBatch } from '../netlink/batch.ts'
import type { DumpOptions, Outcome } from '../netlink/connection.ts'
import { encodeAddRoute, encodeDeleteRoute, type Route, RT_TABLE_LOCAL, RTN_LOCAL } from '../netlink/route-codec.ts'
import { RT_SCOPE_HOST } from '../netlink/address-codec.ts'
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import { runInBatches } from '../netlink/run-batches.ts'
import type { TableIo } from '../sync/table.ts'
import { ADDRESS_LENGTH, familyOf } from '../values/address.ts'
import { CodedError } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import { liveRoutes, type LocalRoute, ROUTE_PROTOCOL, type RouteOperation, ROUTES } from './route-diff.ts'

/** What the kernel is asked for: only the routes of this program. */
const OWN_ROUTES = { table: RT_TABLE_LOCAL, type: RTN_LOCAL, protocol: ROUTE_PROTOCOL } as const

type RouteRequests = Pick<RtnetlinkConnection, 'listRoutes' | 'transact'>

export class RouteTable implements TableIo<LocalRoute, RouteOperation> {
  readonly kind = ROUTES
  readonly #rtnetlink: RouteRequests
  readonly #families: readonly IpFamily[]
  readonly #batch = new MessageBatch(16 << 10)

  readonly #ipv6Lack: () => CodedError | undefined

  /**
   * @param families those that the kernel has; the routes of others are not read
   * @param ipv6Lack why the loopback device has no IPv6; undefined: it has. Asked when the kernel
   * refuses routes of IPv6
   */
  constructor(
    rtnetlink: RouteRequests,
    families: readonly IpFamily[],
    ipv6Lack: () => CodedError | undefined = () => undefined,
  ) {
    this.#rtnetlink = rtnetlink
    this.#families = families
    this.#ipv6Lack = ipv6Lack
  }

  async list(keys: readonly string[] | 'all', signal: AbortSignal): Promise<Map<string, LocalRoute>> {
    const listed = await listOwnRoutes(this.#rtnetlink, this.#families, { signal })
    if (keys === 'all') return liveRoutes(listed)
    const wanted = new Set(keys)
    return liveRoutes(listed.filter(({ destination }) => wanted.has(destination)))
  }

  async apply(ops: readonly RouteOperation[], signal: AbortSignal): Promise<readonly (Error | undefined)[]> {
    const sink = {
      encode: (op: RouteOperation): void => this.#encode(op),
      commit: async (): Promise<readonly Outcome[]> => {
        try {
          return await this.#rtnetlink.transact(this.#batch)
        } finally {
          this.#batch.reset()
        }
      },
    }
    const outcomes = await runInBatches(ops, sink, signal)
    const lack = outcomes.some(isRefusal) ? this.#ipv6Lack() : undefined
    return outcomes.map((outcome, index) => {
      const op = ops[index]
      if (op?.kind === 'delete-route' && isGone(outcome)) return undefined
      const isOfIpv6 = op !== undefined && familyOf(op.address) === 'IPv6'
      return lack !== undefined && isOfIpv6 && isRefusal(outcome) ? lack : outcome
    })
  }

  #encode(op: RouteOperation): void {
    const { address, interfaceIndex, source, priority } = op
    const family = familyOf(address)
    const route: Route = {
      family,
      destination: address,
      prefixLength: 8 * ADDRESS_LENGTH[family],
      ...OWN_ROUTES,
      scope: family === 'IPv4' ? RT_SCOPE_HOST : 0,
      outInterfaceIndex: interfaceIndex,
      preferredSource: source,
      priority,
    }
    switch (op.kind) {
      case 'add-route':
        return encodeAddRoute(this.#batch, route, family === 'IPv4' ? 'prepend' : 'exclusive')
      case 'replace-route':
        return encodeAddRoute(this.#batch, route, 'replace')
      case 'delete-route':
        return encodeDeleteRoute(this.#batch, route)
    }
  }
}

/** The routes of this program in the kernel. Rejects when a list fails or is aborted. */
export async function listOwnRoutes(
  rtnetlink: Pick<RtnetlinkConnection, 'listRoutes'>,
  families: readonly IpFamily[],
  options: { readonly signal: AbortSignal },
): Promise<Route[]> {
  const found: Route[] = []
  for (const family of families)
    for (const route of await rtnetlink.listRoutes({ ...options, family, filter: OWN_ROUTES })) found.push(route)
  return found
}

/** Calls `visit` for each route of one family that `listOwnRoutes` would list, as they arrive. */
export function visitOwnRoutes(
  rtnetlink: Pick<RtnetlinkConnection, 'visitRoutes'>,
  family: IpFamily,
  visit: (route: Route) => void,
  options: DumpOptions,
): Promise<void> {
  return rtnetlink.visitRoutes(visit, { ...options, family, filter: OWN_ROUTES })
}

/** The kernel's answer, for IPv6, where IPv6 is switched off on the device. */
function isRefusal(outcome: Error | undefined): boolean {
  return outcome instanceof CodedError && outcome.code === 'EACCES'
}

/** The kernel deletes IPv6 routes of an interface that goes down. */
function isGone(outcome: Error | undefined): boolean {
  return outcome instanceof CodedError && outcome.code === 'ESRCH'
}
