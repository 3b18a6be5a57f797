/**
 * Audits in the background: rounds that begin a period after the last one began, and rests after
 * stretches of work that keep it below a share of one core.
 * @impure
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Budget } from '../values/budget.ts'
import type { Clock } from '../values/clock.ts'
import { LONGEST_TIMER_MS } from './pacer.ts'

export interface AuditOptions {
  /** Minimum time from the start of one round to the start of the next (KubeProxyConfiguration syncPeriod). */
  readonly periodMs: number
  /** One round over everything. */
  readonly round: (signal: AbortSignal) => Promise<void>
  readonly onError: (error: unknown) => void
  readonly now: Clock
  /** Rejects when aborted; tests replace it. */
  readonly sleep?: AuditShareOptions['sleep']
  readonly signal: AbortSignal
}

/** Runs rounds until aborted; then it resolves. A round that fails is run again after the next period. */
export async function auditPeriodically(options: AuditOptions): Promise<void> {
  const { periodMs, round, onError, now, signal } = options
  const wait = options.sleep ?? ((ms, abort) => sleep(ms, undefined, { signal: abort }))
  let dueMs = now() + periodMs
  while (!signal.aborted) {
    try {
      await wait(Math.min(Math.max(0, dueMs - now()), LONGEST_TIMER_MS), signal)
      if (now() < dueMs) continue
      dueMs = now() + periodMs
      await round(signal)
    } catch (error) {
      if (!signal.aborted) onError(error)
    }
  }
}

export interface AuditShareOptions {
  /** 0.01 means 1 % of one core. */
  readonly share: number
  readonly now: Clock
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
}

/** Work that may run ahead of the share: unused time accumulates up to this much, which is enough for a small table. */
const CREDIT_MS = 20

/**
 * No rest is longer. Until it is over no audit compares anything, and a quiet proxy counts as stale
 * (alert KubeIpvsSyncStale) after 15 minutes without a comparison. At 50,000 Services the list of
 * virtual servers alone may cost more than the share of ten minutes.
 */
const LONGEST_REST_MS = 600_000

/** The share of one core that all audits together have. It holds over time, not at every moment. */
export class AuditShare {
  /** See AuditShareOptions; it may change. */
  share: number
  readonly #options: AuditShareOptions
  /** When all work so far is within the share. */
  #paidAtMs = Number.NEGATIVE_INFINITY

  constructor(options: AuditShareOptions) {
    this.#options = options
    this.share = options.share
  }

  /**
   * To be called when a stretch of an audit is over: rests until its work is within the share, and
   * begins the next stretch. Rejects when aborted.
   */
  async rest(budget: Budget, signal: AbortSignal): Promise<void> {
    const { share } = this
    const { now, sleep } = this.#options
    const workMs = budget.takeWorkMs()
    const nowMs = now()
    const paidAtMs = Math.max(this.#paidAtMs, nowMs - CREDIT_MS / share) + workMs / share
    this.#paidAtMs = Math.min(paidAtMs, nowMs + LONGEST_REST_MS)
    // A change that has arrived goes first.
    if (this.#paidAtMs <= nowMs) return budget.turn()
    await sleep(this.#paidAtMs - nowMs, signal)
    budget.begin()
  }
}
