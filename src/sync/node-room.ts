/**
 * How much of the node the Services have, and how much each may have. The measure is
 * `src/service/costs.ts`, and `src/sync/room-division.ts` decides when it does not suffice. While
 * all have room, a change costs a few additions. A Service that may not have what it wants keeps
 * what it has until the next decision.
 */
import type { Room, Shortage } from '../service/costs.ts'
import { divideRoom, type Member, type NamespaceUse, SLACK, UNLIMITED } from './room-division.ts'

export interface NodeRoomOptions {
  /** What all Services together may have. */
  readonly limit: () => number
  /** Every Service, in any order. Read when a namespace wants more than its share. */
  readonly services: () => Iterable<{ readonly owner: string; readonly since: number }>
  /** Whether a Service has all that it wants in any case. */
  readonly isNeeded: (owner: string) => boolean
}

/**
 * After a decision none is made for this time for each Service and namespace that was looked at, so
 * that they take a few percent of the time.
 */
const REST_MS = 0.02

const NONE: readonly string[] = []

export class NodeRoom implements Room {
  readonly #options: NodeRoomOptions
  /** What each Service has; while it is computed, what it had if that is more. */
  readonly #used = new Map<string, number>()
  readonly #usedIn = new Map<string, number>()
  #total = 0
  /** What the Services had that grow now. */
  readonly #before = new Map<string, number>()
  /** Services that have not all that they want, and what all of them lack. */
  readonly #shortages = new Map<string, Shortage>()
  #frontendsLeftOut = 0
  /** Services that are refused something, although no decision has said so, while they are computed. */
  readonly #refused = new Set<string>()
  /** The same when they were computed. */
  readonly #undecided = new Set<string>()
  /** The last decision. */
  #share = UNLIMITED
  #caps = new Map<string, number>()
  #decidedLimit = Number.NaN
  /** The Services of namespaces that want more than their share, in their order. */
  readonly #orders = new Map<string, readonly string[]>()
  /** Something has changed since the last decision. */
  #isChanged = false
  /** Services and namespaces that the decision has looked at. */
  #looked = 0
  #restsUntilMs = 0

  constructor(options: NodeRoomOptions) {
    this.#options = options
  }

  /** What all Services have. */
  get total(): number {
    return this.#total
  }

  /** What all Services may have. */
  get limit(): number {
    return this.#options.limit()
  }

  /** What each Service lacks that has not all that it wants. */
  get shortages(): ReadonlyMap<string, Shortage> {
    return this.#shortages
  }

  /** Services that have not all that they want, and their frontends that are left out. */
  get leftOut(): { readonly services: number; readonly frontends: number } {
    return { services: this.#shortages.size, frontends: this.#frontendsLeftOut }
  }

  allows(owner: string, total: number): boolean {
    const used = this.#used.get(owner) ?? 0
    if (!this.#mayHave(owner, total, used) && !this.#options.isNeeded(owner)) {
      if (!this.#caps.has(owner)) this.#refused.add(owner)
      return false
    }
    if (total > used) {
      if (!this.#before.has(owner)) this.#before.set(owner, used)
      this.#add(owner, total - used)
    }
    return true
  }

  #mayHave(owner: string, total: number, used: number): boolean {
    const cap = this.#caps.get(owner)
    if (cap !== undefined && total > cap) return false
    const growth = total - used
    if (growth <= 0) return true
    const slack = this.limit * SLACK
    if (this.#total + growth > this.limit + slack) return false
    if (cap !== undefined) return true
    // What is large waits for a decision: what two Services have written and one of them must give
    // back is much work of the kernel.
    const before = this.#before.get(owner) ?? used
    if (total - before > slack) return false
    const { toGrow, toKeep } = this.#share
    return (this.#usedIn.get(namespaceOf(owner)) ?? 0) + growth <= (before === 0 ? toGrow : toKeep)
  }

  /** Whether a Service was refused something that it keeps until the next decision, if it has it. */
  isUndecided(owner: string): boolean {
    return this.#refused.has(owner) || this.#undecided.has(owner)
  }

  /** A Service was computed: what it costs, 0 if it is gone, and what it lacks. */
  settle(owner: string, cost: number, shortage: Shortage | undefined): void {
    const isUndecided = this.#refused.delete(owner) && shortage !== undefined
    if (isUndecided && !this.#undecided.has(owner)) {
      this.#undecided.add(owner)
      this.#isChanged = true
    }
    if (!isUndecided) this.#undecided.delete(owner)
    if (shortage === undefined) this.#caps.delete(owner)
    const there = this.#used.get(owner) ?? 0
    const used = isUndecided ? there : cost
    if (used !== there) this.#add(owner, used - there)
    const before = this.#before.get(owner) ?? there
    this.#before.delete(owner)
    const known = this.#shortages.get(owner)
    this.#frontendsLeftOut += (shortage?.frontends ?? 0) - (known?.frontends ?? 0)
    if (shortage !== undefined) this.#shortages.set(owner, shortage)
    else if (known !== undefined) this.#shortages.delete(owner)
    if (used !== before || known?.wants !== shortage?.wants || known?.next !== shortage?.next) this.#isChanged = true
  }

  /** A Service of this namespace is new, gone, or has another age. */
  servicesChanged(namespace: string): void {
    this.#orders.delete(namespace)
  }

  #add(owner: string, more: number): void {
    this.#total += more
    addTo(this.#used, owner, more)
    addTo(this.#usedIn, namespaceOf(owner), more)
  }

  /** When the next decision may be made; undefined when none is due. */
  get nextDecisionMs(): number | undefined {
    return this.#isDue ? this.#restsUntilMs : undefined
  }

  get #isDue(): boolean {
    if (this.#decidedLimit !== this.limit) return true
    const isShort = this.#share !== UNLIMITED || this.#shortages.size > 0 || this.#total > this.limit
    return this.#isChanged && isShort
  }

  /**
   * The Services that have to be computed again, because they may have more or must have less.
   * Costs nothing while all have room, and otherwise a walk over the namespaces, and over the
   * Services of those that want more than their share, if something has changed.
   */
  decide(nowMs: number): readonly string[] {
    if (!this.#isDue || nowMs < this.#restsUntilMs) return NONE
    const { limit } = this
    this.#looked = this.#usedIn.size + this.#shortages.size
    const { share, caps, changed, waiting } = divideRoom({
      limit,
      total: this.#total,
      undecided: this.#undecided,
      wasShort: this.#share !== UNLIMITED,
      namespaces: this.#namespaces(),
      membersOf: (namespace) => {
        const members = this.#orderOf(namespace).map((owner) => this.#member(owner))
        this.#looked += members.length
        return members
      },
    })
    const again = new Set(changed)
    for (const owner of this.#undecided)
      if (!waiting.has(owner)) {
        this.#undecided.delete(owner)
        again.add(owner)
      }
    this.#isChanged = false
    this.#decidedLimit = limit
    this.#share = share
    this.#caps = caps
    if (share === UNLIMITED) this.#orders.clear()
    if (nowMs !== Number.POSITIVE_INFINITY) this.#restsUntilMs = nowMs + this.#looked * REST_MS
    return Array.from(again)
  }

  #member(owner: string): Member {
    const isNeeded = this.#options.isNeeded(owner)
    return { owner, used: this.#used.get(owner) ?? 0, shortage: this.#shortages.get(owner), isNeeded }
  }

  #namespaces(): ReadonlyMap<string, NamespaceUse> {
    const all = new Map<string, { used: number; wants: number; short: Member[] }>()
    for (const [name, used] of this.#usedIn) all.set(name, { used, wants: used, short: [] })
    for (const [owner, shortage] of this.#shortages) {
      const name = namespaceOf(owner)
      const member = this.#member(owner)
      const there = all.get(name)
      const lacks = Math.max(0, shortage.wants - member.used)
      if (there === undefined) all.set(name, { used: 0, wants: lacks, short: [member] })
      else {
        there.wants += lacks
        there.short.push(member)
      }
    }
    return all
  }

  /** The Services of a namespace, those in front that come first. */
  #orderOf(namespace: string): readonly string[] {
    if (!this.#orders.has(namespace)) this.#sortAll()
    return this.#orders.get(namespace) ?? NONE
  }

  /** Sorts every namespace at once: to find the Services of one takes a walk over all. */
  #sortAll(): void {
    const all = new Map<string, { readonly owner: string; readonly since: number; readonly isNeeded: boolean }[]>()
    for (const { owner, since } of this.#options.services()) {
      this.#looked++
      const name = namespaceOf(owner)
      if (this.#orders.has(name)) continue
      const member = { owner, since, isNeeded: this.#options.isNeeded(owner) }
      const there = all.get(name)
      if (there === undefined) all.set(name, [member])
      else there.push(member)
    }
    for (const [name, members] of all) {
      members.sort(
        (a, b) => Number(b.isNeeded) - Number(a.isNeeded) || a.since - b.since || (a.owner < b.owner ? -1 : 1),
      )
      this.#orders.set(
        name,
        members.map(({ owner }) => owner),
      )
    }
  }
}

/** The namespace of an owner (`namespace/name`). */
export function namespaceOf(owner: string): string {
  return owner.slice(0, owner.indexOf('/'))
}

function addTo(counts: Map<string, number>, key: string, more: number): void {
  const count = (counts.get(key) ?? 0) + more
  if (count === 0) counts.delete(key)
  else counts.set(key, count)
}
