/**
 * Counts the answers of the health endpoints: what the proxy's own said, and the checks of the metrics server (`/metrics/slis`).
 * What could break: codes and names are labels; only the servers' own, never anything a client sent, may get here.
 */

export class ProbeCounts {
  /** Answers of the health server by status code. */
  readonly healthz = new Map<number, number>()
  readonly livez = new Map<number, number>()
  /** Results of the metrics server's checks by name. */
  readonly checks = new Map<string, { succeeded: number; failed: number; last: boolean }>()

  /** The health server answered `/healthz` or `/livez`. */
  answered(path: 'healthz' | 'livez', status: number): void {
    this[path].set(status, (this[path].get(status) ?? 0) + 1)
  }

  /** A check of the metrics server's /healthz was made: `ping`. */
  checked(name: string, passed: boolean): void {
    const before = this.checks.get(name) ?? { succeeded: 0, failed: 0, last: passed }
    before.last = passed
    if (passed) before.succeeded++
    else before.failed++
    this.checks.set(name, before)
  }

  /** `DELETE /metrics/slis` */
  resetChecks(): void {
    this.checks.clear()
  }
}
