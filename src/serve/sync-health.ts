/**
 * Whether the proxy works, by IP family, for /healthz, /livez and the health checks of Services. A
 * single failing item must not make the node unhealthy, because a tenant could cause it. A table
 * that cannot be read or written, a pass that does not end and a list that does not arrive make it
 * unhealthy once they last longer than the grace period.
 */
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import type { FamilyHealth } from './health-answers.ts'
import type { Clock } from '../values/clock.ts'

export interface SyncHealthOptions {
  /** The served IP families. */
  readonly families: () => readonly IpFamily[]
  /** How long a trouble may last (kube-proxy: 2 x syncPeriod). */
  readonly graceMs: () => number
  readonly now: Clock
  /** Milliseconds since the epoch. */
  readonly clock: () => number
}

interface Trouble {
  readonly sinceMs: number
  /** The IP families that the trouble affects; undefined for all. */
  readonly families: readonly IpFamily[] | undefined
}

export class SyncHealth {
  readonly #options: SyncHealthOptions
  readonly #troubles = new Map<string, Trouble>()
  readonly #updatedMs = new Map<IpFamily, number>()

  constructor(options: SyncHealthOptions) {
    this.#options = options
    for (const family of IP_FAMILIES) this.#updatedMs.set(family, options.clock())
  }

  /**
   * Begins a trouble, such as `pass` (it has not ended yet) or `table sets`, unless it has begun
   * already. Without `families` it affects all of them.
   */
  begin(what: string, families?: readonly IpFamily[]): void {
    if (!this.#troubles.has(what)) this.#troubles.set(what, { sinceMs: this.#options.now(), families })
  }

  /** Ends a trouble. */
  end(what: string): void {
    this.#troubles.delete(what)
  }

  /** Ends all troubles. */
  reset(): void {
    this.#troubles.clear()
  }

  /** Begins or ends a trouble. */
  set(what: string, wrong: boolean, families?: readonly IpFamily[]): void {
    if (wrong) this.begin(what, families)
    else this.end(what)
  }

  /** Call after the kernel was read or written: sets `lastUpdatedMs` of the IP families without any trouble. */
  markUpToDate(): void {
    const atMs = this.#options.clock()
    for (const family of this.#updatedMs.keys()) {
      let wrong = false
      for (const trouble of this.#troubles.values()) if (affects(trouble, family)) wrong = true
      if (!wrong) this.#updatedMs.set(family, atMs)
    }
  }

  /** The health of each served IP family. */
  get families(): ReadonlyMap<IpFamily, FamilyHealth> {
    const nowMs = this.#options.now()
    const states = new Map<IpFamily, FamilyHealth>()
    const served = this.#options.families()
    for (const [family, lastUpdatedMs] of this.#updatedMs)
      if (served.includes(family)) states.set(family, { lastUpdatedMs, healthy: !this.#isLate(family, nowMs) })
    return states
  }

  /** Whether all served IP families are healthy. */
  get isHealthy(): boolean {
    const nowMs = this.#options.now()
    return !this.#options.families().some((family) => this.#isLate(family, nowMs))
  }

  /** Every trouble, also one that does not count yet, with its age in milliseconds. */
  get troubles(): readonly { readonly what: string; readonly ageMs: number; readonly isLate: boolean }[] {
    const [nowMs, graceMs] = [this.#options.now(), this.#options.graceMs()]
    return Array.from(this.#troubles, ([what, { sinceMs }]) => {
      const ageMs = nowMs - sinceMs
      return { what, ageMs, isLate: ageMs >= graceMs }
    })
  }

  #isLate(family: IpFamily, nowMs: number): boolean {
    const graceMs = this.#options.graceMs()
    for (const trouble of this.#troubles.values())
      if (nowMs - trouble.sinceMs >= graceMs && affects(trouble, family)) return true
    return false
  }
}

function affects({ families }: Trouble, family: IpFamily): boolean {
  return families === undefined || families.includes(family)
}
