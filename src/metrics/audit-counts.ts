/**
 * Counts audits: how long they take, and those that failed.
 * What could break: the names are labels; there are as many as kinds of audit.
 */
import { AUDIT_SECONDS } from './buckets.ts'
import { Histogram } from './histogram.ts'

export class AuditCounts {
  readonly seconds = new Map<string, Histogram>()
  readonly failures = new Map<string, number>()

  /** A round is over. */
  ended(audit: string, durationMs: number, failed: boolean): void {
    let seconds = this.seconds.get(audit)
    if (seconds === undefined) {
      seconds = new Histogram(AUDIT_SECONDS)
      this.seconds.set(audit, seconds)
      this.failures.set(audit, 0)
    }
    if (failed) this.failures.set(audit, (this.failures.get(audit) ?? 0) + 1)
    else seconds.observe(durationMs / 1000)
  }
}
