/**
 * Looks after what announces no change: virtual servers, sets, and the rules of legacy iptables.
 * What could break: all of it together stays below a share of one core; a look says where to read again, never what to do.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { auditSets } from '../ipset/audit.ts'
import { auditVirtualServers } from '../ipvs/audit.ts'
import { auditForEver } from '../sync/audit.ts'
import { CpuBudget } from '../sync/cpu-budget.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { GuardKernel } from './guard-kernel.ts'
import type { IpvsDataplane } from './ipvs.ts'
import type { IpvsKernel } from './ipvs-kernel.ts'

/** Share of one core for all audits together. */
const CPU_SHARE = 0.003
/** Large sets are listed once in so many rounds; in the others their entries are only counted. */
const THOROUGH_ROUNDS = 10
/** What a small table needs goes at once. */
const CREDIT_MS = 20

export interface IpvsAuditOptions {
  readonly kernel: IpvsKernel
  readonly guardKernel: GuardKernel
  readonly dataplane: IpvsDataplane
  readonly families: readonly IpFamily[]
  /** From one round to the next, at least (syncPeriod). */
  readonly periodMs: number
  /** A pass should look at what is doubted now. */
  readonly onDoubt: () => void
  readonly onError: (error: unknown) => void
  readonly now: () => number
  readonly signal: AbortSignal
}

/** Resolves when aborted; never rejects. */
export async function auditIpvsMode(options: IpvsAuditOptions): Promise<void> {
  const { kernel, guardKernel, dataplane, families, periodMs, onDoubt, onError, now, signal } = options
  const budget = new CpuBudget({
    share: CPU_SHARE,
    creditMs: CREDIT_MS,
    now,
    sleep: (ms, abort) => sleep(ms, undefined, { signal: abort }),
  })
  const { guard } = dataplane
  const every = (round: (abort: AbortSignal) => Promise<void>): Promise<void> =>
    auditForEver({ periodMs, round, onError, now, signal })
  let rounds = 0
  // Each at its own pace: a large table of virtual servers takes many minutes.
  await Promise.all([
    every((abort) =>
      auditVirtualServers({
        ipvs: kernel.auditIpvs,
        mirror: dataplane.virtualServers,
        budget,
        cpuMs,
        onDoubt,
        signal: abort,
      }),
    ),
    every((abort) =>
      auditSets({
        ipset: guardKernel.auditIpset,
        families,
        thorough: ++rounds % THOROUGH_ROUNDS === 0,
        sets: guard.sets,
        entries: guard.entries,
        budget,
        cpuMs,
        onDoubt,
        signal: abort,
      }),
    ),
    every(async () => {
      if (guardKernel.iptables.choice.mode === 'legacy') for (const family of families) guard.doubtRules(family)
    }),
  ])
}

/** Processor time of this process so far. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
