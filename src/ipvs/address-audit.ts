/**
 * The audit of kube-ipvs0 and its addresses. The kernel announces their changes, so the audit only finds changes whose
 * announcement was lost unnoticed. It marks keys to read again; a pass decides what to do.
 * @impure
 */
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import type { CpuBudget } from '../sync/audit.ts'
import { SERVICE_DEVICE } from '../values/well-known.ts'
import { type BoundAddress, type Device, isSameAddress, liveAddresses } from './address-diff.ts'

export interface AddressAuditOptions {
  /** A connection that is used for nothing else, so that a change never waits for a list. */
  readonly rtnetlink: Pick<RtnetlinkConnection, 'getLink' | 'listAddresses'>
  readonly device: {
    live(key: string): Device | undefined
    doubt(keys: Iterable<string>): void
  }
  readonly addresses: {
    live(address: string): BoundAddress | undefined
    liveEntries(): Iterable<readonly [string, BoundAddress]>
    doubt(keys: Iterable<string> | 'all'): void
  }
  readonly budget: CpuBudget
  /** Processor time of this process since its start, in milliseconds. */
  readonly cpuMs: () => number
  /** A difference was found: the caller should ask for a pass. */
  readonly onDoubt: () => void
  readonly signal: AbortSignal
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
    const doubtful: string[] = []
    for (const [address, bound] of found) {
      const live = addresses.live(address)
      if (live === undefined || !isSameAddress(live, bound)) doubtful.push(address)
    }
    for (const [address] of addresses.liveEntries()) if (!found.has(address)) doubtful.push(address)
    if (doubtful.length > 0) {
      addresses.doubt(doubtful)
      onDoubt()
    }
  }
  await budget.pay(cpuMs() - startedMs, found.size, signal)
}
