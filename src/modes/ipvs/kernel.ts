/**
 * Everything in the kernel that ipvs mode works on, opened together, and followed: announcements where there are some,
 * audits where there are none.
 */
import type { KubeProxyConfiguration } from '../../config/types.ts'
import { IPVS_LAYOUT } from '../leftovers/layouts.ts'
import { kernelFamilies } from '../../node/families.ts'
import { parseCidrs } from '../../values/cidr.ts'
import type { Log } from '../../values/log.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { type AuditObserver, auditIpvsMode } from './audits.ts'
import { type GuardKernel, openGuardKernel } from './guard-kernel.ts'
import type { IpvsDataplane } from './dataplane.ts'
import { type IpvsKernel, openIpvsKernel } from './ipvs-kernel.ts'
import { watchKernel } from './kernel-watch.ts'
import { watchRules } from '../rule-watch.ts'
import type { Clock } from '../../values/clock.ts'

/** Opening loads modules, which may take a while on a slow disk. */
const OPEN_MS = 10_000

export interface Kernel {
  readonly ipvs: IpvsKernel
  /** Sets and rules. */
  readonly guard: GuardKernel
  /** Families that are served. */
  readonly families: readonly IpFamily[]
  close(): void
}

/** Changes nothing. Rejects with `ipvs-missing` and the like when ipvs mode cannot work here. */
export async function openKernel({ ipvs: { excludeCIDRs } }: KubeProxyConfiguration): Promise<Kernel> {
  const excluded = parseCidrs(excludeCIDRs)
  const signal = AbortSignal.timeout(OPEN_MS)
  const ipvs = await openIpvsKernel(excluded, signal)
  try {
    const guard = await openGuardKernel(kernelFamilies(), signal)
    return {
      ipvs,
      guard,
      families: guard.support.families,
      close: () => {
        guard.close()
        ipvs.close()
      },
    }
  } catch (error) {
    ipvs.close()
    throw error
  }
}

export interface KernelFollowOptions {
  readonly kernel: Kernel
  readonly dataplane: IpvsDataplane
  readonly log: Log
  /** A pass should look at what is doubted now. */
  readonly onDoubt: () => void
  /** An address or a link that is not ours changed. */
  readonly onNodeAddresses: () => void
  /** From one audit to the next, at least (syncPeriod). */
  readonly auditPeriodMs: number
  readonly auditObserver?: AuditObserver | undefined
  readonly now: Clock
  readonly signal: AbortSignal
}

/** Hears every announcement from the moment this returns. */
export function watchAnnouncements(options: KernelFollowOptions): { close(): void } {
  const { kernel, dataplane, log, onDoubt, onNodeAddresses } = options
  const events = watchKernel({
    kernel: kernel.ipvs,
    dataplane,
    onDoubt,
    onNodeAddresses,
    onError: (error) => log.warn('Lost announcements of the kernel; reading everything again', { error }),
  })
  const rules = watchRules({
    iptables: kernel.guard.iptables,
    layout: IPVS_LAYOUT,
    doubtRules: (family) => dataplane.guard.doubtRules(family),
    onError: (error) => log.warn('Lost announcements of changed rules; looking at all of them', { error }),
  })
  return {
    close: () => {
      rules.close()
      events.close()
    },
  }
}

/** Resolves when aborted; never rejects. */
export function audit({ kernel, dataplane, log, ...options }: KernelFollowOptions): Promise<void> {
  return auditIpvsMode({
    kernel: kernel.ipvs,
    guardKernel: kernel.guard,
    dataplane,
    families: kernel.families,
    periodMs: options.auditPeriodMs,
    onDoubt: options.onDoubt,
    observer: options.auditObserver,
    onError: (error, name) => log.warn('An audit failed', { audit: name, error }),
    now: options.now,
    signal: options.signal,
  })
}
