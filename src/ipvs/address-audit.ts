/**
 * The audits of kube-ipvs0 and its addresses, and of local routes. The kernel announces their changes, so the audits only find
 * changes whose announcement was lost unnoticed. They mark keys to read again; a pass decides what to do.
 * @impure
 */
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import type { CpuBudget } from '../sync/audit.ts'
import type { IpFamily } from '../values/protocol.ts'
import { SERVICE_DEVICE } from '../values/well-known.ts'
import { type BoundAddress, type Device, isSameAddress, liveAddresses } from './address-diff.ts'
import { isSameRoute, liveRoutes, type LocalRoute } from './route-diff.ts'
import { listOwnRoutes } from './routes.ts'

/** The part of the mirror that an audit needs. */
interface AuditedItems<Item> {
  live(key: string): Item | undefined
  liveEntries(): Iterable<readonly [string, Item]>
  doubt(keys: Iterable<string> | 'all'): void
}

interface AuditOptions {
  readonly budget: CpuBudget
  /** Processor time of this process since its start, in milliseconds. */
  readonly cpuMs: () => number
  /** A difference was found: the caller should ask for a pass. */
  readonly onDoubt: () => void
  readonly signal: AbortSignal
}

export interface AddressAuditOptions extends AuditOptions {
  /** A connection that is used for nothing else, so that a change never waits for a list. */
  readonly rtnetlink: Pick<RtnetlinkConnection, 'getLink' | 'listAddresses'>
  readonly device: {
    live(key: string): Device | undefined
    doubt(keys: Iterable<string>): void
  }
  readonly addresses: AuditedItems<BoundAddress>
}

export interface RouteAuditOptions extends AuditOptions {
  /** A connection that is used for nothing else, so that a change never waits for a list. */
  readonly rtnetlink: Pick<RtnetlinkConnection, 'listRoutes'>
  readonly routes: AuditedItems<LocalRoute>
  readonly families: readonly IpFamily[]
}

/** One round over the device and all of its addresses. Rejects when the kernel cannot be read, or when aborted. */
export async function auditAddresses(options: AddressAuditOptions): Promise<void> {
  const { rtnetlink, device, addresses, budget, cpuMs, onDoubt, signal } = options
  const startedMs = cpuMs()
  const link = await rtnetlink.getLink(SERVICE_DEVICE, { signal })
  const listed = link && (await rtnetlink.listAddresses({ interfaceIndex: link.index, signal, yieldAfterMs: 4 }))
  const found = liveAddresses(listed ?? [])
  if (device.live(SERVICE_DEVICE)?.kind !== link?.kind) {
    device.doubt([SERVICE_DEVICE])
    addresses.doubt('all')
    onDoubt()
  } else {
    doubtDifferences(addresses, found, isSameAddress, onDoubt)
  }
  await budget.pay(cpuMs() - startedMs, found.size, signal)
}

/** One round over all routes of this program. Rejects when the kernel cannot be read, or when aborted. */
export async function auditRoutes(options: RouteAuditOptions): Promise<void> {
  const { rtnetlink, routes, families, budget, cpuMs, onDoubt, signal } = options
  const startedMs = cpuMs()
  const found = liveRoutes(await listOwnRoutes(rtnetlink, families, { signal, yieldAfterMs: 4 }))
  doubtDifferences(routes, found, isSameRoute, onDoubt)
  await budget.pay(cpuMs() - startedMs, found.size, signal)
}

function doubtDifferences<Item>(
  mirror: AuditedItems<Item>,
  found: ReadonlyMap<string, Item>,
  isSame: (a: Item, b: Item) => boolean,
  onDoubt: () => void,
): void {
  const doubtful: string[] = []
  for (const [key, item] of found) {
    const live = mirror.live(key)
    if (live === undefined || !isSame(live, item)) doubtful.push(key)
  }
  for (const [key] of mirror.liveEntries()) if (!found.has(key)) doubtful.push(key)
  if (doubtful.length === 0) return
  mirror.doubt(doubtful)
  onDoubt()
}
