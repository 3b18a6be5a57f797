/**
 * The work on one Service, in stretches: its frontends are made and claimed one by one, then the
 * claims that it no longer makes are withdrawn. A Service may have thousands of frontends, and the
 * event loop must not wait for all of them.
 */
import type { Budget } from '../values/budget.ts'
import type { Contribution, Turn } from '../service/contribution.ts'
import { claimRank, type Frontend, type FrontendKey } from '../service/frontends.ts'
import type { NodeRoom } from './node-room.ts'
import type { OwnedMap } from './owned-map.ts'
import { writtenItems } from './written-items.ts'

interface OwnerWorkOptions {
  readonly owner: string
  /** Creation time of the Service. */
  readonly since: number
  /**
   * Makes the Service's frontends, with undefined where the stretch is over; undefined when the
   * Service was deleted.
   */
  readonly frontends: ((turn: Turn) => Generator<Frontend | undefined, Contribution, void>) | undefined
  readonly room: Pick<NodeRoom, 'allows' | 'isUndecided'>
  readonly budget: Budget
  /** The keys that the owner has claimed so far. */
  readonly claimed: readonly FrontendKey[]
  readonly owned: OwnedMap<FrontendKey, Frontend>
}

/** Of work that took more stretches than this the next one waits with the long ones. */
const LONG_STRETCHES = 4

export class OwnerWork {
  readonly #options: OwnerWorkOptions
  readonly #frontends: Generator<Frontend | undefined, Contribution, void> | undefined
  #contribution: Contribution | undefined
  #isMade: boolean
  /** How many of the earlier claims have been checked. */
  #checkedCount = 0
  /** Earlier claims that stay until it is decided whether there is room for them. */
  readonly #kept: FrontendKey[] = []
  #usedMs = 0

  constructor(options: OwnerWorkOptions) {
    this.#options = options
    const { owner, budget, room } = options
    this.#frontends = options.frontends?.({ owner, budget, room })
    this.#isMade = options.frontends === undefined
  }

  get owner(): string {
    return this.#options.owner
  }

  /** Known when the work is done; undefined when the Service was deleted. */
  get contribution(): Contribution | undefined {
    return this.#contribution
  }

  /** What the owner claims now; known when the work is done. */
  get claims(): readonly FrontendKey[] {
    const made = Array.from(this.#contribution?.frontends.keys() ?? [])
    return this.#kept.length === 0 ? made : [...made, ...this.#kept]
  }

  get isDone(): boolean {
    return this.#isMade && this.#checkedCount >= this.#options.claimed.length
  }

  /**
   * Whether it has taken so much that its owner's next work waits with the long ones: hundreds of
   * real servers. Below that one change is computed with the newest, whatever the last one was.
   */
  get isLong(): boolean {
    return this.#usedMs > LONG_STRETCHES * this.#options.budget.stretchMs
  }

  /**
   * Works until the stretch is over. Calls `onChange` for every key whose winner or winning
   * frontend has changed.
   */
  run(onChange: (key: FrontendKey) => void): void {
    const { budget } = this.#options
    const { usedMs } = budget
    if (this.#claim(onChange)) this.#withdraw(onChange)
    this.#usedMs += budget.usedMs - usedMs
  }

  /** Claims the frontends; false when the stretch was over before the last of them. */
  #claim(onChange: (key: FrontendKey) => void): boolean {
    const { owner, since, owned, budget } = this.#options
    while (!this.#isMade) {
      const step = this.#frontends?.next()
      if (step === undefined || step.done === true) {
        this.#contribution = step?.value
        this.#isMade = true
      } else if (step.value === undefined) return false
      else {
        const { value } = step
        const before = owned.get(value.key)
        if (!owned.claim(value.key, { owner, rank: claimRank(value), since, value })) continue
        onChange(value.key)
        budget.use(writtenItems(before, owned.get(value.key)))
      }
    }
    return true
  }

  /** Withdraws what the owner claims no longer. */
  #withdraw(onChange: (key: FrontendKey) => void): void {
    const { owner, claimed, owned, room, budget } = this.#options
    const isUndecided = this.#contribution?.shortage !== undefined && room.isUndecided(owner)
    while (this.#checkedCount < claimed.length) {
      const key = claimed[this.#checkedCount++]
      if (key === undefined || this.#contribution?.frontends.has(key) === true) continue
      if (isUndecided) {
        this.#kept.push(key)
        continue
      }
      const before = owned.get(key)
      if (!owned.withdraw(key, owner)) continue
      onChange(key)
      budget.use(writtenItems(before, owned.get(key)))
      if (budget.spent()) return
    }
  }
}
