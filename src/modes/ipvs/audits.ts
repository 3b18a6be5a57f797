/**
 * Audits what announces no change (virtual servers, parts of the firewall), and every ten minutes the addresses
 * and routes, of which an announcement may have been lost. All audits together stay below a share of one core. An audit says which keys
 * to read again, never what to change.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { auditAddresses, auditRoutes } from '../../ipvs/address-audit.ts'
import { auditVirtualServers } from '../../ipvs/audit.ts'
import { auditPeriodically, CpuBudget } from '../../sync/audit.ts'
import type { IpvsDataplane } from './dataplane.ts'
import type { AuditObserver } from '../mode.ts'
import type { Kernel } from './kernel.ts'
import type { Clock } from '../../values/clock.ts'

/**
 * Share of one core for all audits together. Small tables get a larger share, so that a round takes seconds even on a slow kernel; large ones
 * keep an idle proxy under 0.2 % of a core.
 */
const SMALL_TABLE = { virtualServers: 1000, share: 0.002 }
const LARGE_TABLE = { share: 0.001 }
/** Addresses and routes are listed at most this often. */
const ADDRESS_PERIOD_MS = 600_000
/** Processor time that may be used at once, in milliseconds: enough for a small table. */
const CREDIT_MS = 20

export interface IpvsAuditOptions {
  readonly kernel: Kernel
  readonly dataplane: IpvsDataplane
  /** Minimum time from one round to the next (syncPeriod). */
  readonly periodMs: number
  /** Items were doubted: a pass should read them. */
  readonly onDoubt: () => void
  /** An audit failed: changes of other programs in that table are not noticed until one of its next rounds works. */
  readonly onError: (error: unknown, audit: string) => void
  readonly observer: AuditObserver
  readonly now: Clock
  readonly signal: AbortSignal
}

/** Resolves when aborted; never rejects. */
export async function auditIpvsMode(options: IpvsAuditOptions): Promise<void> {
  const { kernel, dataplane, periodMs, onDoubt, onError, observer, now, signal } = options
  const budget = new CpuBudget({
    share: () => (dataplane.virtualServers.liveCount > SMALL_TABLE.virtualServers ? LARGE_TABLE : SMALL_TABLE).share,
    creditMs: CREDIT_MS,
    now,
    sleep: (ms, abort) => sleep(ms, undefined, { signal: abort }),
  })
  const { families } = kernel.support
  const every = (audit: string, round: (abort: AbortSignal) => Promise<void>, atLeastMs = 0): Promise<void> =>
    auditPeriodically({
      periodMs: Math.max(periodMs, atLeastMs),
      round: observed(audit, round, options),
      onError: (error) => onError(error, audit),
      now,
      signal,
    })
  // Independent of each other: a large table of virtual servers takes many minutes.
  await Promise.all([
    every('virtual-servers', (abort) =>
      auditVirtualServers({
        ipvs: kernel.auditIpvs,
        mirror: dataplane.virtualServers,
        budget,
        cpuMs,
        onDoubt,
        onRight: () => observer.confirmed(),
        signal: abort,
      }),
    ),
    every(
      'addresses',
      (abort) =>
        auditAddresses({
          rtnetlink: kernel.auditRtnetlink,
          device: dataplane.device,
          addresses: dataplane.virtualAddresses.addresses,
          budget,
          cpuMs,
          onDoubt,
          signal: abort,
        }),
      ADDRESS_PERIOD_MS,
    ),
    every(
      'routes',
      (abort) =>
        auditRoutes({
          rtnetlink: kernel.auditRtnetlink,
          routes: dataplane.virtualAddresses.routes,
          families,
          budget,
          cpuMs,
          onDoubt,
          signal: abort,
        }),
      ADDRESS_PERIOD_MS,
    ),
    ...dataplane.firewall.audits({ budget, cpuMs, onDoubt }).map(({ name, round }) => every(name, round)),
  ])
}

function observed(
  audit: string,
  round: (abort: AbortSignal) => Promise<void>,
  { observer, now }: IpvsAuditOptions,
): (abort: AbortSignal) => Promise<void> {
  return async (abort) => {
    const startedMs = now()
    let failed = true
    try {
      await round(abort)
      failed = false
    } finally {
      if (!abort.aborted) observer.ended(audit, now() - startedMs, failed)
    }
  }
}

/** Processor time of this process so far. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
