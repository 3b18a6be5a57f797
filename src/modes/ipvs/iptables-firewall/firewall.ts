/**
 * The sets and rules around the virtual servers of ipvs mode: masquerading, accepting, source ranges. A new virtual server waits
 * for its own rules, but not for long, unless they keep clients out. Rules name only sets that exist, and a rule that names a set is
 * removed only after the last entry of the set.
 */
import { CATALOGUE, type SetName, setName } from '../../../ipset/catalogue.ts'
import { entriesOfFrontend, sharedHairpins } from '../../../ipset/render.ts'
import { isOfKind, parametersOf } from '../../../ipset/diff.ts'
import {
  entryKey,
  type SetEntry,
  type SetEntryKey,
  type SetEntryOperation,
  type SetOperation,
  type SetParameters,
  setOfKey,
} from '../../../ipset/types.ts'
import { WantedEntries } from '../../../ipset/wanted-entries.ts'
import type { MissingMatchError, OptionalMatch } from '../../../iptables/types.ts'
import { type MissingRules, missingRules } from './rules/missing-rules.ts'
import { type RuleSettings, type VirtualAddressKind, WantedRules } from './rules/wanted-rules.ts'
import type { AddressFrontend, FrontendKey } from '../../../service/frontends.ts'
import { type PassReport, type Reconciled, reconciled } from '../../../sync/reconciler.ts'
import { TableSync } from '../../../sync/table-sync.ts'
import { IP_FAMILIES, type IpFamily } from '../../../values/protocol.ts'
import { type RuleLoop, RuleLoops } from '../../rule-loops.ts'
import type { IpvsTables } from '../tables.ts'
import type { Clock } from '../../../values/clock.ts'

export interface SetsAndRulesOptions {
  readonly tables: Pick<IpvsTables, 'sets' | 'entries' | 'chains'>
  readonly settings: RuleSettings
  readonly families: readonly IpFamily[]
  /** Whether MASQUERADE accepts --random-fully. */
  readonly randomFully: boolean
  readonly nodeName: string
  readonly now: Clock
  /** Called after each pass over the rules of a family. */
  readonly onPass: (report: PassReport, durationMs: number, family: IpFamily) => void
  /** Rules that are left out now because the kernel lacks a match. */
  readonly onMissing: (error: MissingMatchError, leftOut: readonly string[]) => void
  readonly onError: (error: unknown) => void
  /** Virtual servers that had to wait can be added now. */
  readonly onReady: () => void
  /** Rules of a family are missing for so long that new virtual servers are added without them; called once until they are there. */
  readonly onOverdue?: (family: IpFamily) => void
}

const FIREWALLS: ReadonlySet<SetName> = new Set(IP_FAMILIES.map((family) => setName('LOAD-BALANCER-FW', family)))
/**
 * A new virtual server waits for its rules this long, in milliseconds: without them it serves clients on this node and most pods, with them
 * also the others. kube-proxy adds it before its rules.
 */
export const RULES_WAIT_MS = 15_000
const ALL_MISSING: MissingRules = { forAll: true, sets: new Set() }

export class SetsAndRules {
  readonly sets: TableSync<SetParameters, SetOperation>
  readonly entries: TableSync<SetEntry, SetEntryOperation>
  readonly loops: RuleLoops
  readonly #options: SetsAndRulesOptions
  readonly #rules: WantedRules
  readonly #wanted = new WantedEntries()
  /** Entries by set that are no longer wanted and not removed yet: the rules of the set stay until then. */
  readonly #leaving = new Map<SetName, Set<SetEntryKey>>()
  /** Frontends with source ranges. */
  readonly #restricted = new Set<FrontendKey>()
  readonly #missing = new Map<IpFamily, MissingRules>()
  readonly #waits: RuleWaits
  #changed = false
  #wantsRules = false
  #started = false

  constructor(options: SetsAndRulesOptions) {
    this.#options = options
    const { tables, settings, families, randomFully, now, onError } = options
    this.sets = new TableSync(tables.sets)
    this.entries = new TableSync(tables.entries, { onExamined: (key) => this.#entryExamined(key) })
    this.loops = new RuleLoops(tables.chains, {
      now,
      onPass: (report, durationMs, family) => this.#rulesPassed(report, durationMs, family),
      onMissing: (error) => this.#lacks(error),
      onError,
    })
    this.#rules = new WantedRules(settings, families, randomFully)
    this.#waits = new RuleWaits(now, (family) => options.onOverdue?.(family))
    for (const family of families) this.#missing.set(family, ALL_MISSING)
  }

  /** From now on all sets are wanted, and rules with every pass. */
  want(): void {
    this.#wantsRules = true
    for (const set of CATALOGUE)
      if (this.#options.families.includes(set.family)) this.sets.want(set.name, parametersOf(set))
  }

  /** The winning frontend of this key has changed; undefined: it has none. */
  frontend(key: FrontendKey, frontend: AddressFrontend | undefined): void {
    this.#rules.frontend(key, frontend)
    if (frontend?.firewall === undefined) this.#restricted.delete(key)
    else this.#restricted.add(key)
    const { nodeName } = this.#options
    const entries = frontend === undefined ? [] : entriesOfFrontend(frontend, nodeName)
    const changed = new Set<SetName>()
    for (const change of this.#wanted.set(key, entries, frontend && sharedHairpins(frontend, nodeName))) {
      const set = setOfKey(change.key)
      if (change.entry === undefined && this.entries.live(change.key) !== undefined) this.#leave(set, change.key)
      else this.#leaving.get(set)?.delete(change.key)
      this.entries.want(change.key, change.entry)
      changed.add(set)
    }
    for (const set of changed) this.#resize(set)
  }

  /** The Node's podCIDRs, for detectLocalMode NodeCIDR. */
  podCidrs(podCidrs: readonly string[]): void {
    this.#rules.podCidrs(podCidrs)
  }

  /** Applies `kubeIPVS.virtualAddresses`, which decides the source of the node's own traffic to virtual IPs. */
  use(kind: VirtualAddressKind): void {
    this.#rules.use(kind)
  }

  /** Sets, entries and rules in the order in which a pass adds, for a plan without the loops. */
  get tables(): readonly Reconciled[] {
    return [reconciled(this.sets), reconciled(this.entries), ...this.loops.all.map(({ sync }) => reconciled(sync))]
  }

  /** Passes the wanted rules to the loops; cheap when nothing changed. Returns the loops that have work. */
  renderRules(): ReadonlySet<RuleLoop> {
    const changed = new Set<RuleLoop>()
    if (!this.#wantsRules) return changed
    for (const { family, key, item } of this.#rules.changes()) {
      const loop = this.loops.of(family)
      loop?.sync.want(key, item)
      if (loop !== undefined) changed.add(loop)
    }
    for (const loop of changed) this.#updateMissing(loop)
    return changed
  }

  /** The sets were written: rules may be written. Cheap when no rule has to change. */
  startRules(): void {
    if (!this.sets.isKnown) return
    if (!this.#started) this.#findLeavingEntries()
    for (const set of CATALOGUE)
      if (this.#options.families.includes(set.family))
        this.#rules.setUsable(set.name, isOfKind(set, this.sets.live(set.name)))
    const changed = this.renderRules()
    for (const loop of this.#started ? changed : this.loops.all) loop.request()
    this.#started = true
  }

  /** A set is missing or has another type: it and its entries are read again. */
  doubtSet(name: SetName): void {
    this.sets.doubt([name])
    const ofSet = (key: SetEntryKey): boolean => setOfKey(key) === name
    this.entries.doubt([...this.entries.desiredKeys()].filter(ofSet))
  }

  /** The entries that a frontend needs. */
  entriesOf(key: FrontendKey): readonly SetEntry[] {
    return this.#wanted.of(key)
  }

  /**
   * Whether a new virtual server may be added: the kernel has its entries for source ranges and the rules it needs. Rules that do not come
   * are awaited for RULES_WAIT_MS, those of source ranges without end.
   */
  mayAdd(key: FrontendKey, family: IpFamily): boolean {
    const missing = this.#missing.get(family) ?? ALL_MISSING
    const { forAll, sets } = missing
    let mustWait = forAll && !this.#waits.isOver(family, 'all')
    const entries = sets.size > 0 || this.#restricted.has(key) ? this.#wanted.samplesOf(key) : []
    // Every wait begins now, so that they end together.
    for (const { set } of entries)
      if (sets.has(set) && (FIREWALLS.has(set) || !this.#waits.isOver(family, set))) mustWait = true
    if (mustWait || !this.#restricted.has(key)) return !mustWait
    return (
      missing !== ALL_MISSING &&
      entries.every((entry) => !FIREWALLS.has(entry.set) || this.entries.live(entryKey(entry)) !== undefined)
    )
  }

  /** Whether a wait for rules has ended since the last call: `mayAdd` may answer otherwise. */
  takeOverdue(): boolean {
    return this.#waits.takeEnded()
  }

  /** When the next wait for rules ends; undefined: nothing waits for rules. */
  nextOverdueMs(): number | undefined {
    return this.#waits.nextEndMs()
  }

  /** Whether the results of `mayAdd` may have changed since the last call of `takeChanged`. */
  get hasChanged(): boolean {
    return this.#changed
  }

  /** Returns `hasChanged` and resets it. */
  takeChanged(): boolean {
    const changed = this.#changed
    this.#changed = false
    return changed
  }

  /** Finds entries that an earlier process left and that nothing wants. */
  #findLeavingEntries(): void {
    for (const [key, { set }] of this.entries.liveEntries()) {
      if (this.entries.desired(key) !== undefined) continue
      this.#leave(set, key)
      this.#resize(set)
    }
  }

  #leave(set: SetName, key: SetEntryKey): void {
    const leaving = this.#leaving.get(set)
    if (leaving === undefined) this.#leaving.set(set, new Set([key]))
    else leaving.add(key)
  }

  #resize(set: SetName): void {
    this.#rules.setSize(set, this.#wanted.size(set) + (this.#leaving.get(set)?.size ?? 0))
  }

  #entryExamined(key: SetEntryKey): void {
    const set = setOfKey(key)
    if (FIREWALLS.has(set)) this.#changed = true
    const leaving = this.#leaving.get(set)
    if (leaving === undefined || leaving.size === 0 || this.entries.live(key) !== undefined) return
    if (leaving.delete(key)) this.#resize(set)
  }

  #rulesPassed(report: PassReport, durationMs: number, family: IpFamily): void {
    const loop = this.loops.of(family)
    if (this.#started && loop !== undefined) this.#updateMissing(loop)
    this.#options.onPass(report, durationMs, family)
    if (this.#changed) this.#options.onReady()
  }

  /** The kernel lacks this match: rules with it are left out. Call before the first pass. */
  lacks(match: OptionalMatch): void {
    this.#rules.lacks(match)
  }

  #lacks(error: MissingMatchError): void {
    this.#rules.lacks(error.match)
    for (const loop of this.renderRules()) loop.request()
    const leftOut = this.#options.families.flatMap((family) => this.#rules.leftOut(family))
    this.#options.onMissing(error, leftOut)
  }

  #updateMissing(loop: RuleLoop): void {
    const { family, sync } = loop
    const [before, now] = [this.#missing.get(family) ?? ALL_MISSING, missingRules(sync, family)]
    this.#missing.set(family, now)
    this.#waits.keep(family, now)
    if ((before.forAll && !now.forAll) || [...before.sets].some((set) => !now.sets.has(set))) this.#changed = true
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
    let next: number | undefined
    for (const waits of this.#begun.values())
      for (const { untilMs, isOver } of waits.values())
        if (!isOver && (next === undefined || untilMs < next)) next = untilMs
    return next
  }
}
