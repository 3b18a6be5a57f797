/**
 * The audits of kube-ipvs0 and its addresses, and of local routes. The kernel announces their
 * changes, so the audits only find changes whose announcement was lost unnoticed. They mark keys to
 * read again; a pass decides what to do.
 * @impure
 */
import type { Route } from '../netlink/route-codec.ts'
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import type { AuditShare } from '../sync/audit.ts'
import { type AuditedMirror, Comparison } from '../sync/comparison.ts'
import { familyOf } from '../values/address.ts'
import { newAuditBudget } from '../values/event-loop.ts'
import type { IpFamily } from '../values/protocol.ts'
import { SERVICE_DEVICE } from '../values/well-known.ts'
import { type Binding, type BoundAddress, type Device, hasBinding } from './address-diff.ts'
import { hasPath, isOwnRoute, type LocalRoute, pathOf, type RoutePath } from './route-diff.ts'
import { visitOwnRoutes } from './routes.ts'

interface AuditOptions {
  readonly share: AuditShare
  /** A difference was found: the caller should ask for a pass. */
  readonly onDoubt: () => void
  readonly signal: AbortSignal
}

export interface AddressAuditOptions extends AuditOptions {
  /** A connection that is used for nothing else, so that a change never waits for a list. */
  readonly rtnetlink: Pick<RtnetlinkConnection, 'getLink' | 'visitAddresses'>
  readonly device: {
    live(key: string): Device | undefined
    doubt(keys: Iterable<string>): void
  }
  readonly addresses: Omit<AuditedMirror<BoundAddress>, 'doubt'> & { doubt(keys: Iterable<string> | 'all'): void }
}

export interface RouteAuditOptions extends AuditOptions {
  /** A connection that is used for nothing else, so that a change never waits for a list. */
  readonly rtnetlink: Pick<RtnetlinkConnection, 'visitRoutes'>
  readonly routes: AuditedMirror<LocalRoute>
  readonly families: readonly IpFamily[]
}

/** One round over the device and all of its addresses. Rejects when the kernel cannot be read, or when aborted. */
export async function auditAddresses(options: AddressAuditOptions): Promise<void> {
  const { rtnetlink, device, addresses, share, onDoubt, signal } = options
  const budget = newAuditBudget()
  const link = await rtnetlink.getLink(SERVICE_DEVICE, { signal })
  const comparison = new Comparison<BoundAddress, Binding>(addresses, {
    isSame: hasBinding,
    partsOf: ({ bindings }) => bindings.length,
  })
  if (device.live(SERVICE_DEVICE)?.kind !== link?.kind) {
    device.doubt([SERVICE_DEVICE])
    addresses.doubt('all')
    onDoubt()
  } else {
    if (link !== undefined)
      await rtnetlink.visitAddresses((listed) => comparison.compare(listed.address, listed), {
        interfaceIndex: link.index,
        signal,
        budget,
        onRestart: () => comparison.restart(),
      })
    if (comparison.end()) onDoubt()
  }
  await share.rest(budget, signal)
}

/** One round over all routes of this program. Rejects when the kernel cannot be read, or when aborted. */
export async function auditRoutes(options: RouteAuditOptions): Promise<void> {
  const { rtnetlink, routes, families, share, onDoubt, signal } = options
  const budget = newAuditBudget()
  let isDoubtful = false
  for (const family of families) {
    const comparison = new Comparison<LocalRoute, RoutePath>(routes, {
      isSame: hasPath,
      partsOf: ({ paths }) => paths.length,
      keys: () => keysOf(routes, family),
    })
    const visit = (route: Route): void => {
      if (isOwnRoute(route)) comparison.compare(route.destination, pathOf(route))
    }
    const onRestart = (): void => comparison.restart()
    await visitOwnRoutes(rtnetlink, family, visit, { signal, budget, onRestart })
    if (comparison.end()) isDoubtful = true
  }
  if (isDoubtful) onDoubt()
  await share.rest(budget, signal)
}

function* keysOf(routes: AuditedMirror<LocalRoute>, family: IpFamily): Generator<string, void, undefined> {
  for (const key of routes.liveKeys()) if (familyOf(key) === family) yield key
}
