/**
 * How much of the node the Services have, and how much each may have. The measure is `src/service/costs.ts`. As long as all have room
 * there is nothing to decide. Otherwise namespaces share the room: one that needs less than its share has all that it needs, and what it
 * leaves is shared by the others. Within a namespace the oldest Services come first, and of a Service its first frontends. So no
 * namespace loses what it has within its share because another one grows.
 *
 * A decision stays until it is wrong by more than a part of the room, or Services would take turns.
 */
import type { Room, Shortage } from '../service/costs.ts'

/** The part of the room by which shares may be wrong, and which is left free where they are decided. */
const SLACK = 1 / 32

export interface NodeRoomOptions {
  /** What all Services together may have. */
  readonly limit: () => number
  /** The Services of a namespace, in any order. */
  readonly servicesIn: (namespace: string) => Iterable<{ readonly owner: string; readonly since: number }>
  /** Whether a Service has all that it wants in any case. */
  readonly isNeeded: (owner: string) => boolean
}

/** A namespace that wants more than its share. */
interface Capped {
  /** What its Services leave of the share. */
  rest: number
  /** What a Service may have that wants more, or must have less. The others may grow by the rest. */
  readonly caps: Map<string, number>
}

interface Lack extends Shortage {
  /** What it wants besides what it has. */
  readonly lacks: number
}

/** By how much a Service may grow: with the next frontend, and altogether. */
interface Growth {
  readonly owner: string
  readonly least: number
  readonly growth: number
  /** Its namespace wants more than its share. */
  readonly isCapped: boolean
  /** To compute it again costs little. */
  readonly isCheap: boolean
}

const NONE: readonly string[] = []

export class NodeRoom implements Room {
  readonly #options: NodeRoomOptions
  /** What each Service has; while it is computed, what it had if that is more. */
  readonly #used = new Map<string, number>()
  readonly #usedIn = new Map<string, number>()
  #total = 0
  /** What the Services had that grow now. */
  readonly #before = new Map<string, number>()
  /** Services that may grow by much. */
  readonly #granted = new Set<string>()
  /** Services that have not all that they want, and what all of them lack together. */
  readonly #shortages = new Map<string, Lack>()
  #lacking = 0
  /** The namespaces that want more than their share; undefined while all have room. */
  #capped: ReadonlyMap<string, Capped> | undefined
  /** Services by age, of namespaces that have wanted more. */
  readonly #byAge = new Map<string, readonly string[]>()
  /** A shortage has changed since the last decision. */
  #isChanged = false
  /** As of the last decision. */
  #decidedTotal = 0
  #decidedLimit = Number.NaN

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
    let frontends = 0
    for (const shortage of this.#shortages.values()) frontends += shortage.frontends
    return { services: this.#shortages.size, frontends }
  }

  allows(owner: string, total: number): boolean {
    const used = this.#used.get(owner) ?? 0
    const growth = total - used
    if (growth <= 0 && this.#capped === undefined) return true
    if (!this.#mayHave(owner, total, used) && !this.#options.isNeeded(owner)) return false
    if (growth > 0) {
      if (!this.#before.has(owner)) this.#before.set(owner, used)
      this.#add(owner, growth)
    }
    return true
  }

  #mayHave(owner: string, total: number, used: number): boolean {
    const { limit } = this
    // What is large waits for a decision: what two Services have written and one of them must give back is much work of the kernel.
    if (total - (this.#before.get(owner) ?? used) > limit * SLACK && !this.#granted.has(owner)) return false
    if (!this.#isWithinShare(owner, total, total - used)) return false
    // While all have room some of it stays free for those who come later; they get it before the others have left theirs.
    const most = limit * (this.#capped === undefined ? 1 - SLACK : 1 + SLACK)
    return total <= used || this.#total + total - used <= most
  }

  #isWithinShare(owner: string, total: number, growth: number): boolean {
    const capped = this.#capped?.get(namespaceOf(owner))
    if (capped === undefined) return true
    const cap = capped.caps.get(owner)
    if (cap !== undefined) return total <= cap
    if (growth > capped.rest) return false
    if (growth > 0) capped.rest -= growth
    return true
  }

  /** A Service was computed: what it has, 0 if it is gone, and what it lacks. */
  settle(owner: string, used: number, shortage: Shortage | undefined): void {
    const before = this.#used.get(owner) ?? 0
    if (used !== before) this.#add(owner, used - before)
    this.#before.delete(owner)
    this.#granted.delete(owner)
    if (shortage === undefined && this.#shortages.size === 0) return
    const known = this.#shortages.get(owner)
    if (known === undefined && shortage === undefined) return
    const lacks = shortage === undefined ? 0 : shortage.wants - used
    this.#lacking += lacks - (known?.lacks ?? 0)
    if (shortage === undefined) this.#shortages.delete(owner)
    else this.#shortages.set(owner, { ...shortage, lacks })
    // Otherwise a Service that cannot get more would be computed without end.
    if (used !== before || known?.wants !== shortage?.wants || known?.next !== shortage?.next) this.#isChanged = true
  }

  /** A Service of this namespace is new, gone, or has another age. */
  servicesChanged(namespace: string): void {
    this.#byAge.delete(namespace)
  }

  #add(owner: string, more: number): void {
    this.#total += more
    addTo(this.#used, owner, more)
    addTo(this.#usedIn, namespaceOf(owner), more)
  }

  /**
   * The Services that have to be computed again, because they may have more or must have less. Costs nothing while all have room, and
   * otherwise a walk over the namespaces, and over the Services of those that want more than their share, if something has changed.
   */
  decide(): readonly string[] {
    const { limit } = this
    const slack = limit * SLACK
    if (!this.#isDue(limit, slack)) return NONE
    this.#isChanged = false
    this.#decidedTotal = this.#total
    this.#decidedLimit = limit
    this.#capped = undefined
    if (this.#shortages.size === 0 && this.#total <= limit) return NONE
    const wants = this.#wantsIn()
    const share = shareOfEach(wants, limit, limit - slack)
    const tooLarge = this.#cap(wants, share)
    const again: string[] = []
    let free = limit - this.#total
    let isWrong = free < 0
    for (const { owner, least, growth, isCapped, isCheap } of this.#mayGrow(slack)) {
      // Who has less than the share of a namespace has it at once. The others wait until it is worth the work.
      if (isCapped && !isCheap && growth <= slack && this.#total > limit - 2 * slack) continue
      if (least > free - (isCapped ? slack : 0)) {
        isWrong ||= !isCapped || growth > slack
        continue
      }
      this.#granted.add(owner)
      again.push(owner)
      free -= growth
    }
    return isWrong ? [...tooLarge, ...again] : again
  }

  #isDue(limit: number, slack: number): boolean {
    if (this.#isChanged || limit !== this.#decidedLimit) return true
    if (this.#total > limit) return this.#total !== this.#decidedTotal
    if (this.#capped === undefined || this.#total === this.#decidedTotal) return false
    return this.#total < this.#decidedTotal - slack / 4 || this.#total + this.#lacking <= limit
  }

  /** What each namespace has and lacks. */
  #wantsIn(): ReadonlyMap<string, number> {
    const wants = new Map(this.#usedIn)
    for (const [owner, shortage] of this.#shortages)
      addTo(wants, namespaceOf(owner), shortage.wants - (this.#used.get(owner) ?? 0))
    return wants
  }

  /** Divides the share of each namespace that wants more. Returns the Services that have too much. */
  #cap(wants: ReadonlyMap<string, number>, share: number): string[] {
    const capped = new Map<string, Capped>()
    const tooLarge: string[] = []
    this.#capped = capped
    for (const [namespace, wanted] of wants)
      if (wanted > share) capped.set(namespace, this.#divide(namespace, share, tooLarge))
    return tooLarge
  }

  /** Divides a share among the Services of a namespace, the oldest first. */
  #divide(namespace: string, share: number, tooLarge: string[]): Capped {
    const caps = new Map<string, number>()
    let rest = share
    for (const owner of this.#oldestFirst(namespace)) {
      const used = this.#used.get(owner) ?? 0
      const shortage = this.#shortages.get(owner)
      const isNeeded = this.#options.isNeeded(owner)
      if (!isNeeded && (shortage !== undefined || used > rest)) caps.set(owner, rest)
      if (!isNeeded && used > rest) tooLarge.push(owner)
      // What the first frontend that it lacks does not fit into is left to younger ones.
      const wants = shortage !== undefined && shortage.next <= rest ? shortage.wants : used
      rest -= Math.min(wants, rest)
    }
    return { rest, caps }
  }

  #oldestFirst(namespace: string): readonly string[] {
    const known = this.#byAge.get(namespace)
    if (known !== undefined) return known
    const services = Array.from(this.#options.servicesIn(namespace))
    services.sort((a, b) => a.since - b.since || (a.owner < b.owner ? -1 : 1))
    const sorted = services.map(({ owner }) => owner)
    this.#byAge.set(namespace, sorted)
    return sorted
  }

  /** The Services that may have more: first those of namespaces that have less than their share, then those of small ones. */
  #mayGrow(slack: number): readonly Growth[] {
    const may: (Growth & { readonly usedIn: number })[] = []
    for (const [owner, { wants, next }] of this.#shortages) {
      const namespace = namespaceOf(owner)
      const used = this.#used.get(owner) ?? 0
      const capped = this.#capped?.get(namespace)
      const cap = capped?.caps.get(owner) ?? Number.POSITIVE_INFINITY
      if (next > cap) continue
      const all = Math.min(wants, cap)
      may.push({
        owner,
        least: next - used,
        growth: all - used,
        isCapped: capped !== undefined,
        isCheap: all < slack / 8,
        usedIn: this.#usedIn.get(namespace) ?? 0,
      })
    }
    return may.sort(
      (a, b) => Number(a.isCapped) - Number(b.isCapped) || a.usedIn - b.usedIn || (a.owner < b.owner ? -1 : 1),
    )
  }
}

/** What a namespace may have so that all together have no more than `target`: Infinity where what they want is within the limit. */
function shareOfEach(wants: ReadonlyMap<string, number>, limit: number, target: number): number {
  const sorted = Float64Array.from(wants.values()).sort()
  let left = target
  if (sorted.reduce((sum, one) => sum + one, 0) <= limit) return Number.POSITIVE_INFINITY
  for (const [index, one] of sorted.entries()) {
    const share = left / (sorted.length - index)
    if (one > share) return share
    left -= one
  }
  return Number.POSITIVE_INFINITY
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
