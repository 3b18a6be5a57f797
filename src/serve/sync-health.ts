/**
 * Whether this proxy does its work, family by family: what /healthz, /livez and the health checks of Services say. One
 * item that fails must not make a node unhealthy, and tenants must not be able to; a table that cannot be read or written
 * at all, work that never ends and lists that never come must, after a while.
 */
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import type { FamilyHealth } from './health-answers.ts'
import type { Clock } from '../values/clock.ts'

export interface SyncHealthOptions {
  /** Families that are served now. */
  readonly families: () => readonly IpFamily[]
  /** How long something may be wrong (kube-proxy: 2 x syncPeriod). */
  readonly graceMs: () => number
  readonly now: Clock
  /** Milliseconds since the epoch. */
  readonly clock: () => number
}

interface Trouble {
  readonly sinceMs: number
  /** undefined: all of them. */
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
   * Something is wrong, or is due and not done, since now unless it was before: `pass`, `table sets`. It counts when it
   * lasts. Without families it is about all of them.
   */
  begin(what: string, families?: readonly IpFamily[]): void {
    if (!this.#troubles.has(what)) this.#troubles.set(what, { sinceMs: this.#options.now(), families })
  }

  /** It is over. */
  end(what: string): void {
    this.#troubles.delete(what)
  }

  set(what: string, wrong: boolean, families?: readonly IpFamily[]): void {
    if (wrong) this.begin(what, families)
    else this.end(what)
  }

  /** The kernel was looked at or written to: families about which nothing is wrong are up to date. */
  looked(): void {
    const atMs = this.#options.clock()
    for (const family of this.#updatedMs.keys()) {
      let wrong = false
      for (const trouble of this.#troubles.values()) if (isAbout(trouble, family)) wrong = true
      if (!wrong) this.#updatedMs.set(family, atMs)
    }
  }

  /** Each family as it is now. */
  get families(): ReadonlyMap<IpFamily, FamilyHealth> {
    const nowMs = this.#options.now()
    const states = new Map<IpFamily, FamilyHealth>()
    const served = this.#options.families()
    for (const [family, lastUpdatedMs] of this.#updatedMs)
      if (served.includes(family)) states.set(family, { lastUpdatedMs, healthy: !this.#isLate(family, nowMs) })
    return states
  }

  /** Whether all families are well. */
  get isHealthy(): boolean {
    const nowMs = this.#options.now()
    return !this.#options.families().some((family) => this.#isLate(family, nowMs))
  }

  #isLate(family: IpFamily, nowMs: number): boolean {
    const graceMs = this.#options.graceMs()
    for (const trouble of this.#troubles.values())
      if (nowMs - trouble.sinceMs >= graceMs && isAbout(trouble, family)) return true
    return false
  }
}

function isAbout({ families }: Trouble, family: IpFamily): boolean {
  return families === undefined || families.includes(family)
}
