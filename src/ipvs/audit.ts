/**
 * The rolling audit: it slowly compares the live IPVS table with the mirror, because IPVS announces no changes. A list made in
 * parts can miss or repeat a virtual server, and the mirror may change during the list, so the reconciler reads every
 * difference again before it changes anything.
 * @impure
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { CpuBudget } from '../sync/audit.ts'
import { type AuditedMirror, Comparison } from '../sync/comparison.ts'
import type { IpvsConnection } from './connection.ts'
import { sameFields, sameRealServers } from './diff.ts'
import { sortedRealServers } from './table.ts'
import { type VirtualServer, virtualServerKey, type VirtualServerFields, type VirtualServerKey } from './types.ts'

export interface AuditOptions {
  /** A connection that is used for nothing else, so that a change never waits for a list. */
  readonly ipvs: Pick<IpvsConnection, 'listDestinations' | 'visitServices'>
  readonly mirror: AuditedMirror<VirtualServer>
  readonly budget: CpuBudget
  /** Processor time of this process since its start, in milliseconds. */
  readonly cpuMs: () => number
  /** A difference was found: the caller should ask for a pass. */
  readonly onDoubt: () => void
  /** Everything compared since the last call was equal. */
  readonly onRight?: () => void
  readonly signal: AbortSignal
}

/** Virtual servers whose real servers are read before the budget is charged. */
const SLICE = 8

/** One round over the whole table. Rejects when the kernel cannot be read, or when aborted. */
export async function auditVirtualServers(options: AuditOptions): Promise<void> {
  await auditFields(options)
  await auditRealServers(options)
}

async function auditFields(options: AuditOptions): Promise<void> {
  const { ipvs, mirror, budget, cpuMs, signal } = options
  const startedMs = cpuMs()
  const comparison = new Comparison<VirtualServer, VirtualServerFields>(mirror, { isSame: sameFields })
  await ipvs.visitServices(
    (service) => {
      if (service.kind === 'address') comparison.compare(virtualServerKey(service.fields), service.fields)
    },
    { signal, yieldAfterMs: 4, onRestart: () => comparison.restart() },
  )
  report(comparison.end(), options)
  await budget.pay(cpuMs() - startedMs, comparison.count, signal)
}

async function auditRealServers(options: AuditOptions): Promise<void> {
  const { ipvs, mirror, budget, cpuMs, signal } = options
  let keys: VirtualServerKey[] = []
  const compareSlice = async (): Promise<void> => {
    const startedMs = cpuMs()
    const doubtful: VirtualServerKey[] = []
    let items = keys.length
    for (const key of keys) {
      const live = mirror.live(key)
      if (live === undefined) continue
      const servers = sortedRealServers(await ipvs.listDestinations(live, { signal }))
      items += servers.length
      // The mirror may have changed during the list: only its current state counts.
      const now = mirror.live(key)?.realServers ?? []
      if (!sameRealServers(servers, now)) doubtful.push(key)
    }
    keys = []
    if (doubtful.length > 0) mirror.doubt(doubtful)
    report(doubtful.length > 0, options)
    await budget.pay(cpuMs() - startedMs, items, signal)
  }
  // The keys of this moment: one that is removed and added again meanwhile would be visited again, and the round might never end.
  for (const key of Array.from(mirror.liveKeys())) {
    keys.push(key)
    if (keys.length < SLICE) continue
    await compareSlice()
    // A change that has arrived goes first.
    await nextTurn()
  }
  await compareSlice()
}

function report(isDoubtful: boolean, { onDoubt, onRight }: AuditOptions): void {
  if (isDoubtful) onDoubt()
  else onRight?.()
}
