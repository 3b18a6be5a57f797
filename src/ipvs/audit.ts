/**
 * The rolling audit: it slowly compares the live IPVS table with the mirror, because IPVS announces no changes. A list made in
 * parts can miss or repeat a virtual server, and the mirror may change during the list, so the reconciler reads every
 * difference again before it changes anything.
 * @impure
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { CpuBudget } from '../sync/audit.ts'
import type { IpvsConnection } from './connection.ts'
import { sameFields, sameRealServers } from './diff.ts'
import { sortedRealServers } from './table.ts'
import { type VirtualServer, virtualServerKey, type VirtualServerKey } from './types.ts'

/** The mirror that the audit compares with. */
export interface AuditedMirror {
  live(key: VirtualServerKey): VirtualServer | undefined
  liveEntries(): Iterable<readonly [VirtualServerKey, VirtualServer]>
  doubt(keys: Iterable<VirtualServerKey>): void
}

export interface AuditOptions {
  /** A connection that is used for nothing else, so that a change never waits for a list. */
  readonly ipvs: Pick<IpvsConnection, 'listDestinations' | 'listServices'>
  readonly mirror: AuditedMirror
  readonly budget: CpuBudget
  /** Processor time of this process since its start, in milliseconds. */
  readonly cpuMs: () => number
  /** A difference was found: the caller should ask for a pass. */
  readonly onDoubt: () => void
  /** Everything compared since the last call was equal. */
  readonly onRight?: () => void
  readonly signal: AbortSignal
}

/** Virtual servers compared between two turns of the event loop: about a millisecond. */
const COMPARED_PER_TURN = 500
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
  const services = await ipvs.listServices({ signal, yieldAfterMs: 4 })
  const seen = new Set<VirtualServerKey>()
  const doubtful: VirtualServerKey[] = []
  for (const [index, service] of services.entries()) {
    if (index % COMPARED_PER_TURN === COMPARED_PER_TURN - 1) await nextTurn()
    if (service.kind !== 'address') continue
    const key = virtualServerKey(service.fields)
    seen.add(key)
    const live = mirror.live(key)
    if (live === undefined || !sameFields(live, service.fields)) doubtful.push(key)
  }
  for (const [key] of mirror.liveEntries()) if (!seen.has(key)) doubtful.push(key)
  report(doubtful, options)
  await budget.pay(cpuMs() - startedMs, services.length, signal)
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
    report(doubtful, options)
    await budget.pay(cpuMs() - startedMs, items, signal)
  }
  for (const key of Array.from(mirror.liveEntries(), ([entry]) => entry)) {
    keys.push(key)
    if (keys.length < SLICE) continue
    await compareSlice()
    // A change that has arrived goes first.
    await nextTurn()
  }
  await compareSlice()
}

function report(doubtful: readonly VirtualServerKey[], { mirror, onDoubt, onRight }: AuditOptions): void {
  if (doubtful.length === 0) {
    onRight?.()
    return
  }
  mirror.doubt(doubtful)
  onDoubt()
}
