/**
 * The work on one Service, in portions: its frontends are made and claimed one by one, then the claims that it no longer makes are
 * withdrawn. A Service may have thousands of frontends, and the event loop must not wait for all of them.
 */
import { Budget } from '../values/budget.ts'
import type { Contribution, Turn } from '../service/contribution.ts'
import { claimRank, type Frontend, type FrontendKey } from '../service/frontends.ts'
import type { NodeRoom } from './node-room.ts'
import type { OwnedMap } from './owned-map.ts'

/** This many endpoints, or source ranges, of a frontend cost about as much as one more frontend. */
const ENDPOINTS_A_UNIT = 8
const RANGES_A_UNIT = 4
/** So many endpoints, used or not, are compared in about a unit. */
const CANDIDATES_A_UNIT = 64

interface OwnerWorkOptions {
  readonly owner: string
  /** Creation time of the Service. */
  readonly since: number
  /** Makes the Service's frontends, with undefined where the budget is spent; undefined when the Service was deleted. */
  readonly frontends: ((turn: Turn) => Generator<Frontend | undefined, Contribution, void>) | undefined
  readonly room: Pick<NodeRoom, 'allows' | 'isUndecided'>
  /** Whether its frontends were large: then the work on what they had counts, too. */
  readonly wasLarge: boolean
  /** The keys that the owner has claimed so far. */
  readonly claimed: readonly FrontendKey[]
  readonly owned: OwnedMap<FrontendKey, Frontend>
}

export class OwnerWork {
  readonly #options: OwnerWorkOptions
  readonly #budget = new Budget()
  readonly #frontends: Generator<Frontend | undefined, Contribution, void> | undefined
  #contribution: Contribution | undefined
  #isMade: boolean
  /** How many of the earlier claims have been checked. */
  #checkedCount = 0
  /** Earlier claims that stay until it is decided whether there is room for them. */
  readonly #kept: FrontendKey[] = []

  constructor(options: OwnerWorkOptions) {
    this.#options = options
    this.#frontends = options.frontends?.({ owner: options.owner, budget: this.#budget, room: options.room })
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
   * Does about this many units of work and returns how many it did. One unit is a frontend with few endpoints, one withdrawn
   * claim, or as much of what frontends are made from. Calls `onChange` for every key whose winner or winning frontend has changed.
   */
  run(units: number, onChange: (key: FrontendKey) => void): number {
    const { owner, since, claimed, owned, room, wasLarge } = this.#options
    const budget = this.#budget
    budget.renew(units)
    while (!this.#isMade && !budget.spent()) {
      const step = this.#frontends?.next()
      if (step === undefined || step.done === true) {
        this.#contribution = step?.value
        this.#isMade = true
      } else if (step.value !== undefined) {
        const { value } = step
        budget.use(1 + sizeOf(value) + (wasLarge ? sizeOf(owned.get(value.key)) : 0))
        if (owned.claim(value.key, { owner, rank: claimRank(value), since, value })) onChange(value.key)
      }
    }
    const isUndecided = this.#contribution?.shortage !== undefined && room.isUndecided(owner)
    for (; this.#isMade && !budget.spent() && this.#checkedCount < claimed.length; this.#checkedCount++) {
      const key = claimed[this.#checkedCount]
      if (key === undefined || this.#contribution?.frontends.has(key) === true) continue
      if (isUndecided) {
        this.#kept.push(key)
        continue
      }
      budget.use(1 + (wasLarge ? sizeOf(owned.get(key)) : 0))
      if (owned.withdraw(key, owner)) onChange(key)
    }
    return budget.used
  }
}

/** The work on what a frontend has, and on what it had, in units. */
function sizeOf(frontend: Frontend | undefined): number {
  if (frontend === undefined) return 0
  const { selection, servicePort, firewall } = frontend
  return (
    selection.endpoints.length / ENDPOINTS_A_UNIT +
    servicePort.candidates.length / CANDIDATES_A_UNIT +
    (firewall?.ranges.length ?? 0) / RANGES_A_UNIT
  )
}
