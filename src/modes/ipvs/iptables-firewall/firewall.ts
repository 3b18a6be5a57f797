/**
 * The firewall of ipsets and iptables, as kube-proxy has it: entries of sets say which traffic,
 * rules what happens to it. A new virtual server waits for its own rules, but not for long, unless
 * they keep clients out. Rules name only sets that exist, and a rule that names a set is removed
 * only after the last entry of the set.
 */
import type { Wanted } from '../../../explain/wanted.ts'
import type { SetAuditOptions } from '../../../ipset/audit.ts'
import { CATALOGUE, fullName, type SetName } from '../../../ipset/catalogue.ts'
import { isOfKind, parametersOf } from '../../../ipset/diff.ts'
import { entryKey, type SetOperation, type SetParameters } from '../../../ipset/types.ts'
import type { IptablesTable } from '../../../iptables/table.ts'
import { type IptablesItem, type IptablesOperation, OPTIONAL_MATCHES } from '../../../iptables/types.ts'
import type { CountedConnection } from '../../../metrics/sources.ts'
import type { IptablesChoice } from '../../../node/iptables-choice.ts'
import type { AddressFrontend, FrontendKey } from '../../../service/frontends.ts'
import type { PassReport } from '../../../sync/pass.ts'
import { type Reconciled, reconciled } from '../../../sync/reconciled.ts'
import type { Stage } from '../../../sync/reconciler.ts'
import { TableSync } from '../../../sync/table-sync.ts'
import type { MissingFeature } from '../../../values/errors.ts'
import type { IpFamily } from '../../../values/protocol.ts'
import type { RuleWatchOptions } from '../../announcements.ts'
import { FULL_SYNC_MS, type ModeWatch, type PendingPart } from '../../mode.ts'
import { foreignRulesReporter } from '../../nft-access.ts'
import { type RuleLoop, RuleLoops } from '../../rule-loops.ts'
import { isTableFaulty } from '../../table-health.ts'
import type {
  AuditTools,
  Firewall,
  FirewallAudit,
  FirewallNode,
  FirewallOptions,
  FirewallSources,
} from '../firewall.ts'
import { WantedRules } from './rules/wanted-rules.ts'
import { FIREWALL_WAIT_MS } from '../firewall-waits.ts'
import { Admission } from './admission.ts'
import { FirewallEntries } from './entries.ts'
import { type FirewallTables, type FirewallTablesOptions, listTables, sizesOf } from './tables.ts'

/** The kernel as this firewall uses it. */
export interface FirewallKernel {
  /** Families whose rules can be written. */
  readonly families: readonly IpFamily[]
  readonly choice: IptablesChoice
  openTables(options: Pick<FirewallTablesOptions, 'hooks' | 'rules'>): FirewallTables
  watchRules(options: Omit<RuleWatchOptions, 'iptables' | 'layout'>): { close(): void }
  auditSets(options: Omit<SetAuditOptions, 'ipset' | 'families'>): Promise<void>
  connections(): readonly CountedConnection[]
  close(): void
}

export interface IptablesFirewallOptions extends FirewallOptions {
  readonly kernel: FirewallKernel
}

type Loop = RuleLoop<IptablesItem, IptablesOperation>

export class IptablesFirewall implements Firewall {
  readonly #options: IptablesFirewallOptions
  readonly #sets: TableSync<SetParameters, SetOperation>
  readonly #entries: FirewallEntries
  /** The sets of its families. */
  readonly #ownSets: typeof CATALOGUE
  readonly #chains: readonly IptablesTable[]
  readonly #loops: RuleLoops<IptablesItem, IptablesOperation>
  readonly #rules: WantedRules
  readonly #admission: Admission
  readonly #abort = new AbortController()
  /** A look at the back end of iptables that is not in use. */
  #others: Promise<void> | undefined
  #started = false

  constructor(options: IptablesFirewallOptions) {
    this.#options = options
    const { kernel, settings, problems, log, now } = options
    const { families, choice } = kernel
    const tables = kernel.openTables({
      hooks: {
        onSetLost: (name) => this.#doubtSet(name),
        onGrown: (set, maxElements) => log.warn('A set was full and has been made larger', { set, maxElements }),
      },
      rules: { onRead: foreignRulesReporter(problems), serves: options.serves, now },
    })
    this.#sets = new TableSync(tables.sets)
    this.#entries = new FirewallEntries({
      io: tables.entries,
      nodeName: options.nodeName,
      onExamined: (set) => this.#admission.examined(set),
      onSize: (set, size) => this.#rules.setSize(set, size),
    })
    this.#chains = tables.chains
    this.#loops = new RuleLoops(tables.chains, {
      now,
      onPass: (report, durationMs, loop) => this.#rulesPassed(report, durationMs, loop),
      onMissing: (error) => this.#doWithout(error),
      onError: (error) => log.error('Writing rules failed', { error }),
    })
    this.#rules = new WantedRules(settings, families, choice.randomFully)
    this.#admission = new Admission({
      now,
      onOverdue: (ipFamily) => {
        const waited = `${FIREWALL_WAIT_MS / 1000}s`
        log.warn('Rules are still missing; adding virtual servers without them', { ipFamily, waited })
      },
      entriesOf: (key) => this.#entries.samplesOf(key),
      has: (entry) => this.#entries.has(entry),
    })
    this.#loops.keepOthers()
    this.#ownSets = CATALOGUE.filter(({ family }) => families.includes(family))
    for (const set of this.#ownSets) this.#sets.want(set.name, parametersOf(set))
  }

  begin(): { readonly iptables: IptablesChoice } {
    const { kernel, log } = this.#options
    const { choice: iptables, families } = kernel
    log.info('Using iptables', { backEnd: iptables.mode, reason: iptables.reason })
    for (const set of CATALOGUE) {
      const ipSetName = fullName(set)
      if (families.includes(set.family) && ipSetName !== set.name)
        log.info('Ipset name truncated', { ipSetName, truncatedName: set.name })
    }
    return { iptables }
  }

  lacks(features: ReadonlySet<string>): void {
    for (const match of OPTIONAL_MATCHES) if (features.has(match)) this.#rules.lacks(match)
  }

  frontend(key: FrontendKey, frontend: AddressFrontend | undefined): void {
    this.#rules.frontend(key, frontend)
    this.#admission.restrict(key, frontend?.firewall !== undefined)
    this.#entries.frontend(key, frontend)
  }

  node({ podCidrs, virtualAddresses }: Partial<FirewallNode>): void {
    if (podCidrs !== undefined) this.#rules.podCidrs(podCidrs)
    if (virtualAddresses !== undefined) this.#rules.use(virtualAddresses)
  }

  stages(onMayAdd: () => void): readonly Stage[] {
    return [
      reconciled(this.#sets),
      // Rules only need the sets, not their entries: their processes run while entries are written.
      () => this.#startRules(),
      reconciled(this.#entries.sync),
      () => {
        if (this.#admission.takeChanged()) onMayAdd()
      },
    ]
  }

  mayAdd(key: FrontendKey, family: IpFamily): boolean {
    return this.#admission.mayAdd(key, family)
  }

  passed(servesAll: boolean): boolean {
    if (servesAll) this.#loops.replaceOthers()
    // Rules of sets that have become empty are removed.
    this.#startRules()
    return false
  }

  nextDueMs(): number | undefined {
    return this.#admission.nextDueMs()
  }

  get isComplete(): boolean {
    // Rules of a set that is missing are not wanted yet.
    const hasSets = this.#ownSets.every((set) => isOfKind(set, this.#sets.live(set.name)))
    if (!this.#started || !hasSets || this.#admission.hasChanged) return false
    return this.#loops.isWritten && !isTableFaulty(this.#entries.sync)
  }

  allowRemovals(): void {
    this.#loops.allowRemovals()
    this.#others ??= this.#warnOfOthers()
  }

  plan(): readonly Reconciled[] {
    this.#renderRules()
    return [
      reconciled(this.#sets),
      reconciled(this.#entries.sync),
      ...this.#loops.all.map(({ sync }) => reconciled(sync)),
    ]
  }

  *wanted(neededBy: FrontendKey): Generator<Wanted, void, void> {
    for (const item of this.#entries.of(neededBy)) yield { table: 'set-entries', key: entryKey(item), neededBy, item }
  }

  get parts(): readonly PendingPart[] {
    return this.#loops.all
  }

  get sources(): FirewallSources {
    const { kernel } = this.#options
    return {
      tables: listTables(this.#sets, this.#entries.sync, this.#loops.all, kernel.families),
      connections: () => kernel.connections(),
      sizes: () => sizesOf(this.#sets, this.#entries.count()),
    }
  }

  /**
   * Starts the loops over the rules before the first pass, while the sources list. The kernel
   * announces later changes.
   */
  watch(onForeignWrite: ModeWatch['onForeignWrite']): { close(): void } {
    const { kernel, log } = this.#options
    const watched = kernel.watchRules({
      onForeignWrite,
      watches: (family, table, chain) => this.#chains.some((one) => one.family === family && one.watches(table, chain)),
      doubtRules: (family) => this.#loops.doubt(family),
      onError: (error) => log.warn('Lost announcements of changed rules; reading all rules again', { error }),
    })
    this.#loops.request()
    return watched
  }

  /** Sets, and rules: those of legacy iptables in each round, those that the kernel announces once in FULL_SYNC_MS. */
  audits(tools: AuditTools): readonly FirewallAudit[] {
    const { kernel, now } = this.#options
    const [sets, entries] = [this.#sets, this.#entries.sync]
    let rulesDueMs = kernel.choice.mode === 'legacy' ? 0 : now() + FULL_SYNC_MS
    return [
      { name: 'sets', round: (signal) => kernel.auditSets({ ...tools, sets, entries, signal }) },
      {
        name: 'rules',
        round: async () => {
          if (now() < rulesDueMs) return
          if (kernel.choice.mode !== 'legacy') rulesDueMs = now() + FULL_SYNC_MS
          for (const { family } of this.#loops.all) this.#loops.doubt(family)
        },
      },
    ]
  }

  async close(): Promise<void> {
    this.#abort.abort()
    await this.#loops.close()
    await this.#others
    this.#options.kernel.close()
  }

  async #warnOfOthers(): Promise<void> {
    const { kernel, problems, log } = this.#options
    const { families, choice } = kernel
    const { warnOfOtherBackEnd } = await import('../../leftovers/other-back-end.ts')
    await warnOfOtherBackEnd({ families, choice, problems, log, signal: this.#abort.signal })
  }

  /** Passes the wanted rules to the loops; cheap when nothing changed. Returns the loops that have work. */
  #renderRules(): ReadonlySet<Loop> {
    const changed = new Set<Loop>()
    for (const { family, key, item } of this.#rules.changes()) {
      const loop = this.#loops.of(family)
      loop?.sync.want(key, item)
      if (loop !== undefined) changed.add(loop)
    }
    for (const { sync, family } of changed) this.#admission.rules(sync, family)
    return changed
  }

  /** The sets were written: rules may be written. Cheap when no rule has to change. */
  #startRules(): void {
    if (!this.#sets.isKnown) return
    if (!this.#started) this.#entries.findLeaving()
    for (const set of this.#ownSets) this.#rules.setUsable(set.name, isOfKind(set, this.#sets.live(set.name)))
    const changed = this.#renderRules()
    for (const loop of this.#started ? changed : this.#loops.all) loop.request()
    this.#started = true
  }

  /** A set is missing or has another type: it and its entries are read again. */
  #doubtSet(name: SetName): void {
    this.#sets.doubt([name])
    this.#entries.doubt(name)
  }

  #rulesPassed(report: PassReport, durationMs: number, loop: Loop): void {
    const { listener } = this.#options
    if (this.#started) this.#admission.rules(loop.sync, loop.family)
    listener.partPassed(loop, report, durationMs)
    if (this.#admission.hasChanged) listener.postponedReady()
  }

  #doWithout({ code, feature, remedy, message }: MissingFeature): void {
    const { kernel, problems } = this.#options
    this.lacks(new Set([feature]))
    for (const loop of this.#renderRules()) loop.request()
    const leftOut = kernel.families.flatMap((family) => this.#rules.leftOut(family))
    const rules = leftOut.length === 0 ? message : `${message}; left out: ${leftOut.join('; ')}`
    problems.report('iptables', feature, [{ code, about: 'node', subject: remedy, message: rules }])
  }
}
