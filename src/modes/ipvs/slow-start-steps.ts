/**
 * The steps of slow starts that a pass takes: those of one stretch, the Services in turns. So those
 * of a Service with very many real servers are taken later, not left out, and nobody waits for
 * them.
 */
import type { SlowStarts } from '../../ipvs/slow-starts.ts'
import type { VirtualServer } from '../../ipvs/types.ts'
import type { FrontendKey } from '../../service/frontends.ts'
import type { Budget } from '../../values/budget.ts'

export class SlowStartSteps {
  readonly #starts: SlowStarts
  /** The frontends whose new endpoints start slowly, and their Services. */
  readonly #owners = new Map<FrontendKey, string>()
  /** Frontends with a step that is due, by Service: the Service whose turn is next in front. */
  readonly #due = new Map<string, Set<FrontendKey>>()

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

  /** Takes steps that are due. @param step receives the virtual server with the weights of this moment */
  take(budget: Budget, nowMs: number, step: (key: FrontendKey, server: VirtualServer) => void): void {
    this.#sortDue(budget, nowMs)
    budget.begin()
    for (const [owner, keys] of this.#due) {
      // The next step of this Service follows one of each other.
      this.#due.delete(owner)
      const [key] = keys
      if (key === undefined) continue
      keys.delete(key)
      this.#due.set(owner, keys)
      const server = this.#starts.step(key, nowMs)
      if (server === undefined) continue
      step(key, server)
      budget.use(1 + server.realServers.length)
      if (budget.spent()) return
    }
  }

  #sortDue(budget: Budget, nowMs: number): void {
    budget.begin()
    while (!budget.spentBySteps()) {
      const key = this.#starts.takeDue(nowMs)
      if (key === undefined) return
      const owner = this.#owners.get(key)
      if (owner === undefined) continue
      const keys = this.#due.get(owner)
      if (keys === undefined) this.#due.set(owner, new Set([key]))
      else keys.add(key)
    }
  }

  /** When the next step is due: 0 for now, undefined when nothing starts. */
  nextDueMs(): number | undefined {
    return this.#due.size > 0 ? 0 : this.#starts.nextDueMs()
  }
}
