/**
 * Audits what announces no change (virtual servers, parts of the firewall), and every ten minutes
 * the addresses and routes, of which an announcement may have been lost. All audits together stay
 * below a share of one core. An audit says which keys to read again, never what to change.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { auditAddresses, auditRoutes } from '../../ipvs/address-audit.ts'
import { auditVirtualServers } from '../../ipvs/audit.ts'
import { auditPeriodically, AuditShare } from '../../sync/audit.ts'
import type { IpvsDataplane } from './dataplane.ts'
import type { AuditObserver } from '../mode.ts'
import type { FirewallAudit } from './firewall.ts'
import type { Kernel } from './kernel.ts'
import type { Clock } from '../../values/clock.ts'

/** Share of one core for all audits together. */
const SHARE = 0.001
/** Addresses and routes are listed at most this often. */
const ADDRESS_PERIOD_MS = 600_000

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
  /** Audits of neither tables nor firewall. */
  readonly others: (share: AuditShare) => readonly FirewallAudit[]
  readonly now: Clock
  readonly signal: AbortSignal
}

/** Resolves when aborted; never rejects. */
export async function auditIpvsMode(options: IpvsAuditOptions): Promise<void> {
  const { kernel, dataplane, periodMs, onDoubt, onError, others, now, signal } = options
  const { observer } = options
  const share = new AuditShare({ share: SHARE, now, sleep: (ms, abort) => sleep(ms, undefined, { signal: abort }) })
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
        share,
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
          share,
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
          share,
          onDoubt,
          signal: abort,
        }),
      ADDRESS_PERIOD_MS,
    ),
    ...[...dataplane.firewall.audits({ share, onDoubt }), ...others(share)].map(({ name, round }) =>
      every(name, round),
    ),
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
