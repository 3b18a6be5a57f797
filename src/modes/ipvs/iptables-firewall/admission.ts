/**
 * Which new virtual servers may take traffic: those whose rules are in the kernel, and whose
 * entries are if they keep clients out. Without their rules virtual servers serve clients on this
 * node and most pods, with them also the others, so they do not wait for ever; kube-proxy adds them
 * before their rules.
 */
import { type SetName, setName } from '../../../ipset/catalogue.ts'
import type { SetEntry } from '../../../ipset/types.ts'
import type { FrontendKey } from '../../../service/frontends.ts'
import type { Clock } from '../../../values/clock.ts'
import { IP_FAMILIES, type IpFamily } from '../../../values/protocol.ts'
import { FirewallWaits } from '../firewall-waits.ts'
import { type MissingRules, missingRules, type RulesMirror } from './rules/missing-rules.ts'

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
  readonly #waits: FirewallWaits<SetName | 'all'>
  /** Frontends with source ranges. */
  readonly #restricted = new Set<FrontendKey>()
  readonly #missing = new Map<IpFamily, MissingRules>()
  #hasChanged = false

  constructor(options: AdmissionOptions) {
    this.#options = options
    this.#waits = new FirewallWaits(options.now, options.onOverdue)
  }

  restrict(key: FrontendKey, isRestricted: boolean): void {
    if (isRestricted) this.#restricted.add(key)
    else this.#restricted.delete(key)
  }

  /** The rules of a family were written, or others are wanted. */
  rules(mirror: RulesMirror, family: IpFamily): void {
    const [before, now] = [this.#missing.get(family) ?? ALL_MISSING, missingRules(mirror, family)]
    this.#missing.set(family, now)
    this.#waits.keep(family, (need) => (need === 'all' ? now.forAll : now.sets.has(need)))
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
   * Rules that do not come are awaited for FIREWALL_WAIT_MS, those of source ranges without end. Rules
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
