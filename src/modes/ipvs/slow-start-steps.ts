/**
 * The steps of slow starts that a pass takes. They are work of the Service of their frontend: a Service whose steps took much waits with the
 * others as with its changes, and its steps are taken later, not left out.
 */
import type { SlowStarts } from '../../ipvs/slow-starts.ts'
import type { VirtualServer } from '../../ipvs/types.ts'
import type { FrontendKey } from '../../service/frontends.ts'
import type { LargeWork, OwnerShares } from '../../sync/owner-shares.ts'

/** So many real servers of a virtual server cost about as much as a frontend, as in `src/sync/owner-work.ts`. */
const REAL_SERVERS_A_UNIT = 8

export class SlowStartSteps {
  readonly #starts: SlowStarts
  /** The frontends whose new endpoints start slowly, and their Services. */
  readonly #owners = new Map<FrontendKey, string>()
  /** Steps that are due and whose Services rest. */
  readonly #waiting = new Map<string, Set<FrontendKey>>()
  #shares: OwnerShares | undefined

  constructor(starts: SlowStarts) {
    this.#starts = starts
  }

  /** The frontends whose new endpoints start slowly. */
  keys(): Iterable<FrontendKey> {
    return this.#owners.keys()
  }

  /** New endpoints of this frontend start slowly; undefined: they do not, or there is none. */
  set(key: FrontendKey, owner: string | undefined): void {
    if (owner === undefined) this.#owners.delete(key)
    else this.#owners.set(key, owner)
  }

  /** Takes steps that are due while the budget lasts. @param step receives the virtual server with the weights of this moment */
  take({ budget, shares }: LargeWork, nowMs: number, step: (key: FrontendKey, server: VirtualServer) => void): void {
    this.#shares = shares
    for (const [owner, keys] of this.#waiting) {
      for (const key of keys) {
        if (budget.spent()) return
        if (!shares.mayContinue(owner, nowMs)) break
        keys.delete(key)
        this.#step(key, owner, nowMs, { budget, shares }, step)
      }
      if (keys.size === 0) this.#waiting.delete(owner)
    }
    while (!budget.spent()) {
      const key = this.#starts.takeDue(nowMs)
      if (key === undefined) return
      const owner = this.#owners.get(key)
      if (owner === undefined) continue
      if (shares.mayContinue(owner, nowMs)) this.#step(key, owner, nowMs, { budget, shares }, step)
      else this.#wait(owner, key)
    }
  }

  #step(
    key: FrontendKey,
    owner: string,
    nowMs: number,
    { budget, shares }: LargeWork,
    step: (key: FrontendKey, server: VirtualServer) => void,
  ): void {
    const server = this.#starts.step(key, nowMs)
    const units = 1 + (server?.realServers.length ?? 0) / REAL_SERVERS_A_UNIT
    budget.use(units)
    shares.charge(owner, units)
    if (server !== undefined) step(key, server)
  }

  #wait(owner: string, key: FrontendKey): void {
    const keys = this.#waiting.get(owner)
    if (keys === undefined) this.#waiting.set(owner, new Set([key]))
    else keys.add(key)
  }

  /** When the next step is due and its Service does not rest; undefined when nothing starts. */
  nextDueMs(): number | undefined {
    let next = this.#starts.nextDueMs()
    for (const owner of this.#waiting.keys())
      next = Math.min(next ?? Number.POSITIVE_INFINITY, this.#shares?.restsUntilMs(owner) ?? 0)
    return next
  }
}
