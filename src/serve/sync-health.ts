/**
 * Whether this proxy does its work: what health checks of Services say besides their endpoints.
 * What could break: one item that fails must not make a node unhealthy; a table that cannot be read or written at all,
 * for long, must.
 */

export class SyncHealth {
  readonly #graceMs: () => number
  readonly #now: () => number
  readonly #failingSinceMs = new Map<string, number>()

  /** @param graceMs how long a table may be out of reach (kube-proxy: 2 x syncPeriod); `now` in milliseconds */
  constructor(graceMs: () => number, now: () => number) {
    this.#graceMs = graceMs
    this.#now = now
  }

  /** How a table fared in a pass. */
  passed(table: string, reached: boolean): void {
    if (reached) this.#failingSinceMs.delete(table)
    else if (!this.#failingSinceMs.has(table)) this.#failingSinceMs.set(table, this.#now())
  }

  get isHealthy(): boolean {
    for (const sinceMs of this.#failingSinceMs.values()) if (this.#now() - sinceMs > this.#graceMs()) return false
    return true
  }
}
