/**
 * Audits in the background: rounds that begin a period after the last one began, and a budget that keeps their work below a share
 * of one core by sleeping after it.
 * @impure
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../values/clock.ts'

export interface AuditOptions {
  /** Minimum time from the start of one round to the start of the next (KubeProxyConfiguration syncPeriod). */
  readonly periodMs: number
  /** One round over everything. */
  readonly round: (signal: AbortSignal) => Promise<void>
  readonly onError: (error: unknown) => void
  readonly now: Clock
  /** Rejects when aborted; tests replace it. */
  readonly sleep?: CpuBudgetOptions['sleep']
  readonly signal: AbortSignal
}

/** Runs rounds until aborted; then it resolves. A round that fails is run again after the next period. */
export async function auditPeriodically(options: AuditOptions): Promise<void> {
  const { periodMs, round, onError, now, signal } = options
  const wait = options.sleep ?? ((ms, abort) => sleep(ms, undefined, { signal: abort }))
  let dueMs = now() + periodMs
  while (!signal.aborted) {
    try {
      await wait(Math.max(0, dueMs - now()), signal)
      dueMs = now() + periodMs
      await round(signal)
    } catch (error) {
      if (!signal.aborted) onError(error)
    }
  }
}

export interface CpuBudgetOptions {
  /** Read at each payment, because it may depend on the size of a table. 0.01 means 1 % of one core. */
  readonly share: () => number
  /** Work in milliseconds that may run ahead of the share. */
  readonly creditMs: number
  readonly now: Clock
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
}

/** The most that one slice of an audit can cost: itself, and each item it reads (some microseconds on a fast machine). */
const MAX_MS = 2
const MAX_MS_PER_ITEM = 0.05
/**
 * Credit for slices measured as free is carried over, up to this much: some kernels (user-mode Linux) count processor time in ticks of 10 ms,
 * so that most slices seem to cost nothing and a few of them a tick.
 */
const TICK_MS = 10

/**
 * No debt lasts longer. Until it is paid no audit compares anything, and a quiet proxy counts as stale (alert KubeIpvsSyncStale) after 15
 * minutes without a comparison. At 50,000 Services the list of virtual servers alone may cost more than the share of ten minutes.
 */
const LONGEST_DEBT_MS = 600_000

/** A sleep restores this part of the credit, so that some work may follow before the next sleep: each one wakes the process. */
const RESTORED = 0.25

/** The share holds over time, not at every moment: unused time accumulates up to a credit, which may be used at once. */
export class CpuBudget {
  readonly #options: CpuBudgetOptions
  #creditMs: number
  #paidAtMs: number
  /** What earlier slices could have cost and did not. */
  #unusedMs = 0

  constructor(options: CpuBudgetOptions) {
    this.#options = options
    this.#creditMs = options.creditMs
    this.#paidAtMs = options.now()
  }

  /**
   * Sleeps until the work fits into the share. `workMs` is the processor time of the whole process while about `items` items were
   * read. What exceeds their possible cost was something else (compiling, collecting garbage, a pass) and does not count, or one
   * such moment would stop the audit for a minute. Rejects when aborted.
   */
  async pay(workMs: number, items: number, signal: AbortSignal): Promise<void> {
    const { creditMs, now, sleep } = this.#options
    const share = this.#options.share()
    const nowMs = now()
    const possibleMs = this.#unusedMs + MAX_MS + items * MAX_MS_PER_ITEM
    const countedMs = Math.min(workMs, possibleMs)
    this.#unusedMs = Math.min(TICK_MS, possibleMs - countedMs)
    this.#creditMs = Math.min(creditMs, this.#creditMs + (nowMs - this.#paidAtMs) * share) - countedMs
    this.#paidAtMs = nowMs
    const restoredMs = creditMs * RESTORED
    this.#creditMs = Math.max(this.#creditMs, restoredMs - LONGEST_DEBT_MS * share)
    if (this.#creditMs < 0) await sleep((restoredMs - this.#creditMs) / share, signal)
  }
}
