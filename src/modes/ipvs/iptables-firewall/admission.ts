/**
 * Which new virtual servers may take traffic: those whose rules are in the kernel, and whose
 * entries are if they keep clients out. Without their rules virtual servers serve clients on this
 * node and most pods, with them also the others, so they do not wait for ever; kube-proxy adds them
 * before their rules.
 */
import { type SetName, setName } from '../../../ipset/catalogue.ts'
import type { SetEntry } from '../../../ipset/types.ts'
import type { FrontendKey } from '../../../service/frontends.ts'
import { type Clock, earliest } from '../../../values/clock.ts'
import { IP_FAMILIES, type IpFamily } from '../../../values/protocol.ts'
import { type MissingRules, missingRules, type RulesMirror } from './rules/missing-rules.ts'

/** A new virtual server waits for its rules this long, in milliseconds. */
export const RULES_WAIT_MS = 15_000

const FIREWALLS: ReadonlySet<SetName> = new Set(IP_FAMILIES.map((family) => setName('LOAD-BALANCER-FW', family)))
const ALL_MISSING: MissingRules = { forAll: true, sets: new Set() }

export interface AdmissionOptions {
  readonly now: Clock
  /**
   * Rules of a family are missing for so long that new virtual servers are added without them;
   * called once until they are there.
   */
  readonly onOverdue: (family: IpFamily) => void
  /** One entry at least of each set that a frontend needs. */
  readonly entriesOf: (key: FrontendKey) => readonly SetEntry[]
  /** Whether the kernel has an entry. */
  readonly has: (entry: SetEntry) => boolean
}

export class Admission {
  readonly #options: AdmissionOptions
  readonly #waits: RuleWaits
  /** Frontends with source ranges. */
  readonly #restricted = new Set<FrontendKey>()
  readonly #missing = new Map<IpFamily, MissingRules>()
  #hasChanged = false

  constructor(options: AdmissionOptions) {
    this.#options = options
    this.#waits = new RuleWaits(options.now, options.onOverdue)
  }

  restrict(key: FrontendKey, isRestricted: boolean): void {
    if (isRestricted) this.#restricted.add(key)
    else this.#restricted.delete(key)
  }

  /** The rules of a family were written, or others are wanted. */
  rules(mirror: RulesMirror, family: IpFamily): void {
    const [before, now] = [this.#missing.get(family) ?? ALL_MISSING, missingRules(mirror, family)]
    this.#missing.set(family, now)
    this.#waits.keep(family, now)
    if ((before.forAll && !now.forAll) || [...before.sets].some((set) => !now.sets.has(set))) this.#hasChanged = true
  }

  /** An entry of this set was written or examined. */
  examined(set: SetName): void {
    if (FIREWALLS.has(set)) this.#hasChanged = true
  }

  /** Whether the answers of `mayAdd` have changed, but for waits that have ended. */
  get hasChanged(): boolean {
    return this.#hasChanged
  }

  /** Whether the answers of `mayAdd` have changed since the last call. */
  takeChanged(): boolean {
    const isOver = this.#waits.takeEnded()
    const hasChanged = this.#hasChanged || isOver
    this.#hasChanged = false
    return hasChanged
  }

  /** When the next wait for rules ends; undefined: nothing waits for rules. */
  nextDueMs(): number | undefined {
    return this.#waits.nextEndMs()
  }

  /**
   * Rules that do not come are awaited for RULES_WAIT_MS, those of source ranges without end. Rules
   * may be written in the middle of a pass: then the rest of the pass waits for the next one, with
   * the virtual servers that had to wait before. Otherwise the last Services would be added before
   * the API server's.
   */
  mayAdd(key: FrontendKey, family: IpFamily): boolean {
    if (this.#hasChanged) return false
    const { entriesOf, has } = this.#options
    const missing = this.#missing.get(family) ?? ALL_MISSING
    const { forAll, sets } = missing
    let mustWait = forAll && !this.#waits.isOver(family, 'all')
    const entries = sets.size > 0 || this.#restricted.has(key) ? entriesOf(key) : []
    // Every wait begins now, so that they end together.
    for (const { set } of entries)
      if (sets.has(set) && (FIREWALLS.has(set) || !this.#waits.isOver(family, set))) mustWait = true
    if (mustWait || !this.#restricted.has(key)) return !mustWait
    return missing !== ALL_MISSING && entries.every((entry) => !FIREWALLS.has(entry.set) || has(entry))
  }
}

type Need = SetName | 'all'

/** Since when new virtual servers wait for rules, by family and need. */
class RuleWaits {
  readonly #now: Clock
  readonly #onOver: (family: IpFamily) => void
  readonly #begun = new Map<IpFamily, Map<Need, { readonly untilMs: number; isOver: boolean }>>()

  constructor(now: Clock, onOver: (family: IpFamily) => void) {
    this.#now = now
    this.#onOver = onOver
  }

  /** Whether the wait for this need is over; begins it when it is new. */
  isOver(family: IpFamily, need: Need): boolean {
    const waits = this.#begun.get(family) ?? new Map<Need, { readonly untilMs: number; isOver: boolean }>()
    this.#begun.set(family, waits)
    const wait = waits.get(need)
    if (wait === undefined) waits.set(need, { untilMs: this.#now() + RULES_WAIT_MS, isOver: false })
    return wait?.isOver === true
  }

  /** Forgets the waits for rules that are there. */
  keep(family: IpFamily, { forAll, sets }: MissingRules): void {
    const waits = this.#begun.get(family)
    for (const need of waits?.keys() ?? []) if (need === 'all' ? !forAll : !sets.has(need)) waits?.delete(need)
  }

  /** Ends the waits that are over; whether there were any. */
  takeEnded(): boolean {
    const nextMs = this.nextEndMs()
    if (nextMs === undefined || nextMs > this.#now()) return false
    const nowMs = this.#now()
    for (const [family, waits] of this.#begun) {
      const ended = Array.from(waits.values()).filter(({ isOver, untilMs }) => !isOver && untilMs <= nowMs)
      const isFirst = !Array.from(waits.values()).some(({ isOver }) => isOver)
      for (const wait of ended) wait.isOver = true
      if (ended.length > 0 && isFirst) this.#onOver(family)
    }
    return true
  }

  nextEndMs(): number | undefined {
    const waits = Array.from(this.#begun.values()).flatMap((ofFamily) => Array.from(ofFamily.values()))
    return earliest(...waits.map(({ untilMs, isOver }) => (isOver ? undefined : untilMs)))
  }
}
