/**
 * The work on one Service, in stretches: its frontends are made and claimed one by one, then the
 * claims that it no longer makes are withdrawn. A Service may have thousands of frontends, and the
 * event loop must not wait for all of them.
 */
import type { Budget } from '../values/budget.ts'
import type { Contribution, Turn } from '../service/contribution.ts'
import { compareEndpoints, type Endpoint } from '../service/endpoints.ts'
import { claimRank, type Frontend, type FrontendKey } from '../service/frontends.ts'
import { weightsOf } from '../service/service-port.ts'
import type { NodeRoom } from './node-room.ts'
import type { OwnedMap } from './owned-map.ts'

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

/**
 * How much the kernel has to write when a frontend changes, which takes longer than to find out
 * what changes: a virtual server, its real servers, and an entry for each source range.
 */
function writtenItems(before: Frontend | undefined, after: Frontend | undefined): number {
  if (before === undefined || after === undefined) return itemsOf(before) + itemsOf(after)
  const [was, is] = [before.servicePort, after.servicePort]
  if (was.choices !== is.choices || rangesOf(before) !== rangesOf(after)) return itemsOf(before) + itemsOf(after)
  return 1 + differing(serversOf(before), serversOf(after))
}

function itemsOf(frontend: Frontend | undefined): number {
  return frontend === undefined ? 0 : 1 + frontend.selection.endpoints.length + rangesOf(frontend)
}

function rangesOf({ firewall }: Frontend): number {
  return firewall?.ranges.length ?? 0
}

interface Servers {
  readonly endpoints: readonly Endpoint[]
  readonly weights: readonly number[] | undefined
}

function serversOf({ servicePort, selection }: Frontend): Servers {
  return { endpoints: selection.endpoints, weights: weightsOf(servicePort, selection) }
}

/** How many endpoints are in only one of two lists, which are sorted, or have another weight in the other. */
function differing(some: Servers, others: Servers): number {
  if (some.endpoints === others.endpoints && some.weights === others.weights) return 0
  let [at, common, reweighted] = [0, 0, 0]
  for (const [index, endpoint] of others.endpoints.entries()) {
    let order = compareAt(some.endpoints, at, endpoint)
    while (order < 0) order = compareAt(some.endpoints, ++at, endpoint)
    if (order !== 0) continue
    common++
    if (some.weights?.[at] !== others.weights?.[index]) reweighted++
  }
  return some.endpoints.length + others.endpoints.length - 2 * common + reweighted
}

function compareAt(endpoints: readonly Endpoint[], at: number, endpoint: Endpoint): number {
  const there = endpoints[at]
  return there === undefined ? 1 : compareEndpoints(there, endpoint)
}
