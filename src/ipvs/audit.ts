/**
 * The rolling audit: compares the live IPVS table with the mirror, slowly, because IPVS announces no change.
 * What could break: it only says where to look. A list made in parts can miss or repeat a virtual server, and the
 * mirror may move on meanwhile, so every difference is read again by the reconciler before anything is done.
 * @impure
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { CpuBudget } from '../sync/audit.ts'
import type { IpvsConnection } from './connection.ts'
import { sameFields, sameRealServers } from './diff.ts'
import { sortedRealServers } from './table.ts'
import { type VirtualServer, virtualServerKey, type VirtualServerKey } from './types.ts'

/** What the audit compares with. */
export interface AuditedMirror {
  live(key: VirtualServerKey): VirtualServer | undefined
  liveEntries(): Iterable<readonly [VirtualServerKey, VirtualServer]>
  doubt(keys: Iterable<VirtualServerKey>): void
}

export interface AuditOptions {
  /** A connection of its own, so that a change never waits for a list. */
  readonly ipvs: Pick<IpvsConnection, 'listDestinations' | 'listServices'>
  readonly mirror: AuditedMirror
  readonly budget: CpuBudget
  /** Processor time of this process so far, in milliseconds. */
  readonly cpuMs: () => number
  /** Something differs: a pass should look. */
  readonly onDoubt: () => void
  /** Everything looked at since the last call was right. */
  readonly onRight?: () => void
  readonly signal: AbortSignal
}

/** Virtual servers compared between two turns of the event loop: about a millisecond. */
const COMPARED_PER_TURN = 500
/** Virtual servers whose real servers are read before the budget is asked. */
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
  const look = async (): Promise<void> => {
    const startedMs = cpuMs()
    const doubtful: VirtualServerKey[] = []
    let items = keys.length
    for (const key of keys) {
      const live = mirror.live(key)
      if (live === undefined) continue
      const servers = sortedRealServers(await ipvs.listDestinations(live, { signal }))
      items += servers.length
      // The mirror may have moved on while the list was made: only what it says now counts.
      const now = mirror.live(key)?.realServers ?? []
      if (!sameRealServers(servers, now)) doubtful.push(key)
    }
    keys = []
    report(doubtful, options)
    await budget.pay(cpuMs() - startedMs, items, signal)
  }
  for (const key of Array.from(mirror.liveEntries(), ([entry]) => entry)) {
    keys.push(key)
    if (keys.length >= SLICE) await look()
  }
  await look()
}

function report(doubtful: readonly VirtualServerKey[], { mirror, onDoubt, onRight }: AuditOptions): void {
  if (doubtful.length === 0) {
    onRight?.()
    return
  }
  mirror.doubt(doubtful)
  onDoubt()
}
