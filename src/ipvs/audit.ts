/**
 * The rolling audit: it slowly compares the live IPVS table with the mirror, because IPVS announces
 * no changes. A list made in parts can miss or repeat a virtual server, and the mirror may change
 * during the list, so the reconciler reads every difference again before it changes anything.
 * @impure
 */
import type { AuditShare } from '../sync/audit.ts'
import { type AuditedMirror, Comparison } from '../sync/comparison.ts'
import type { Budget } from '../values/budget.ts'
import { newAuditBudget } from '../values/event-loop.ts'
import type { IpvsConnection } from './connection.ts'
import { sameFields, sameRealServers } from './diff.ts'
import { sortedRealServers } from './table.ts'
import { type VirtualServer, virtualServerKey, type VirtualServerFields, type VirtualServerKey } from './types.ts'

export interface AuditOptions {
  /** A connection that is used for nothing else, so that a change never waits for a list. */
  readonly ipvs: Pick<IpvsConnection, 'listDestinations' | 'visitServices'>
  readonly mirror: AuditedMirror<VirtualServer>
  readonly share: Pick<AuditShare, 'rest'>
  /** A difference was found: the caller should ask for a pass. */
  readonly onDoubt: () => void
  /** Everything compared since the last call was equal. */
  readonly onRight?: () => void
  readonly signal: AbortSignal
}

/** One round over the whole table. Rejects when the kernel cannot be read, or when aborted. */
export async function auditVirtualServers(options: AuditOptions): Promise<void> {
  const budget = newAuditBudget()
  await auditFields(options, budget)
  await auditRealServers(options, budget)
}

async function auditFields(options: AuditOptions, budget: Budget): Promise<void> {
  await findDifferentFields(options, budget)
  await options.share.rest(budget, options.signal)
}

/** Lists the virtual servers once. */
async function findDifferentFields(options: AuditOptions, budget: Budget): Promise<void> {
  const { ipvs, mirror, signal } = options
  const comparison = new Comparison<VirtualServer, VirtualServerFields>(mirror, { isSame: sameFields })
  await ipvs.visitServices(
    (service) => {
      if (service.kind === 'address') comparison.compare(virtualServerKey(service.fields), service.fields)
    },
    { signal, budget, onRestart: () => comparison.restart() },
  )
  report(comparison.end(), options)
}

async function auditRealServers(options: AuditOptions, budget: Budget): Promise<void> {
  const { ipvs, mirror, share, signal } = options
  let doubtful: VirtualServerKey[] = []
  let mayBeFlushed = true
  const endStretch = async (): Promise<void> => {
    if (doubtful.length > 0) mirror.doubt(doubtful)
    report(doubtful.length > 0, options)
    doubtful = []
    await share.rest(budget, signal)
  }
  // The keys of this moment: one that is removed and added again meanwhile would be visited again,
  // and the round might never end.
  for (const key of Array.from(mirror.liveKeys())) {
    const live = mirror.live(key)
    if (live === undefined) continue
    const servers = sortedRealServers(await ipvs.listDestinations(live, { signal, budget }))
    // The mirror may have changed during the list: only its current state counts.
    const now = mirror.live(key)?.realServers ?? []
    if (!sameRealServers(servers, now)) doubtful.push(key)
    // IPVS lists no real servers of a virtual server that is not there. Another program may have removed all of
    // them, and this round takes minutes at thousands: so one list finds the others now.
    if (mayBeFlushed && servers.length === 0 && now.length > 0) {
      mayBeFlushed = false
      await findDifferentFields(options, budget)
    }
    if (budget.spent()) await endStretch()
  }
  await endStretch()
}

function report(isDoubtful: boolean, { onDoubt, onRight }: AuditOptions): void {
  if (isDoubtful) onDoubt()
  else onRight?.()
}
