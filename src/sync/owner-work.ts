/**
 * What follows from one Service, in portions: its frontends are made and claimed one by one, then the claims that it had before
 * and no longer makes are withdrawn. A Service may have thousands of them, and the event loop must not wait for all.
 */
import type { Contribution } from '../service/contribution.ts'
import { claimRank, type Frontend, type FrontendKey } from '../service/frontends.ts'
import type { OwnedMap } from './owned-map.ts'

/** Endpoints and source ranges of one frontend that cost about as much as one frontend more. */
const ENDPOINTS_A_UNIT = 8
const RANGES_A_UNIT = 4

export interface OwnerWorkOptions {
  readonly owner: string
  /** Creation time of the Service. */
  readonly since: number
  /** Undefined: the Service is gone. */
  readonly making: Generator<Frontend, Contribution, void> | undefined
  /** What the owner claims until now. */
  readonly claimed: readonly FrontendKey[]
  readonly owned: OwnedMap<FrontendKey, Frontend>
}

export class OwnerWork {
  readonly #options: OwnerWorkOptions
  #contribution: Contribution | undefined
  #isMade: boolean
  /** How many of the earlier claims were looked at. */
  #looked = 0

  constructor(options: OwnerWorkOptions) {
    this.#options = options
    this.#isMade = options.making === undefined
  }

  get owner(): string {
    return this.#options.owner
  }

  /** Known when the work is done; undefined when the Service is gone. */
  get contribution(): Contribution | undefined {
    return this.#contribution
  }

  get isDone(): boolean {
    return this.#isMade && this.#looked >= this.#options.claimed.length
  }

  /**
   * Works about this many units and returns how many they were. One unit is a frontend with few endpoints, or a claim that is
   * withdrawn. `tell` hears of every key whose winner or whose winning frontend is another one now.
   */
  run(units: number, tell: (key: FrontendKey) => void): number {
    const { owner, since, making, claimed, owned } = this.#options
    let done = 0
    while (done < units && !this.#isMade) {
      const step = making?.next()
      if (step === undefined || step.done === true) {
        this.#contribution = step?.value
        this.#isMade = true
      } else {
        const value = step.value
        if (owned.claim(value.key, { owner, rank: claimRank(value), since, value })) tell(value.key)
        done += unitsOf(value)
      }
    }
    for (; done < units && this.#looked < claimed.length; this.#looked++) {
      const key = claimed[this.#looked]
      if (key === undefined || this.#contribution?.frontends.has(key) === true) continue
      if (owned.withdraw(key, owner)) tell(key)
      done++
    }
    return done
  }
}

function unitsOf({ endpoints, firewall }: Frontend): number {
  return 1 + endpoints.length / ENDPOINTS_A_UNIT + (firewall?.ranges.length ?? 0) / RANGES_A_UNIT
}
