/**
 * Runs audits round after round: the next begins a period after the last one began, or when its CPU budget lets it.
 * What could break: an audit that fails is tried again at the next round; it never ends the loop.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../values/clock.ts'

export interface AuditOptions {
  /** From the start of one round to the start of the next, at least (KubeProxyConfiguration syncPeriod). */
  readonly periodMs: number
  /** One round over everything. */
  readonly round: (signal: AbortSignal) => Promise<void>
  readonly onError: (error: unknown) => void
  readonly now: Clock
  readonly signal: AbortSignal
}

/** Resolves when aborted; never rejects. */
export async function auditForEver(options: AuditOptions): Promise<void> {
  const { periodMs, round, onError, now, signal } = options
  let startedMs = now()
  while (!signal.aborted) {
    try {
      await sleep(Math.max(0, startedMs + periodMs - now()), undefined, { signal })
      startedMs = now()
      await round(signal)
    } catch (error) {
      if (!signal.aborted) onError(error)
    }
  }
}
