/**
 * iptables mode as the proxy sees it: joins the kernel, the dataplane and the settings of the node.
 */
import { IptablesDataplane } from './dataplane.ts'
import {
  countedPackets,
  initializeIptablesNode,
  type IptablesKernel,
  type LocalnetOptions,
  makeCounters,
  openIptablesKernel,
  routeLocalnet,
  watchAddresses,
} from './kernel.ts'
import { askForMatches } from './service-matches.ts'
import { watchRules } from '../announcements.ts'
import { nftAccessOf, foreignRulesReporter } from '../nft-access.ts'
import { isTableFaulty, type TableHealth } from '../table-health.ts'
import { loopbackRefusal } from './chains/fixed-render.ts'
import { IPTABLES_LAYOUT } from '../leftovers/layouts.ts'
import { RuleCounts } from '../../metrics/rule-counts.ts'
import type { KernelSources } from '../../metrics/sources.ts'
import { isSysctlOn } from '../../node/sysctl.ts'
import { nodePortRangesOf } from '../../service/node-addresses.ts'
import { auditPeriodically } from '../../sync/audit.ts'
import {
  type AuditObserver,
  FULL_SYNC_MS,
  type Mode,
  type ModeOptions,
  type ModeWatch,
  type NodeView,
  periodsOf,
} from '../mode.ts'

/** Wait after an announced change of rules, so that the commands of one script are one change. Milliseconds. */
const SETTLE_MS = 200
const LIBERAL = 'net/netfilter/nf_conntrack_tcp_be_liberal'

export class IptablesMode implements Mode {
  readonly name = 'iptables'
  readonly dataplane: IptablesDataplane
  /** One rule serves a node port at all addresses. */
  readonly nodePorts = 'every-address'
  readonly #options: ModeOptions
  readonly #isFallback: boolean
  readonly #kernel: IptablesKernel
  readonly #abort = new AbortController()
  readonly #counts = { IPv4: new RuleCounts(), IPv6: new RuleCounts() }
  /** Loopback addresses without node ports that were already logged. */
  readonly #reported = new Set<string>()
  #hasCounters = false
  #leftoversRemoval: Promise<void> | undefined
  /** Lets node ports answer at 127.0.0.0/8; undefined after it was called, or when the configuration turns it off. */
  #openLocalnet: (() => void) | undefined

  /**
   * Rejects with `iptables-missing`, which says what to install.
   * @param isFallback the configuration names ipvs mode: node ports stay closed at 127.0.0.0/8, as
   * they are there (CVE-2020-8558)
   */
  static async open(options: ModeOptions, isFallback: boolean): Promise<IptablesMode> {
    return new IptablesMode(options, await openIptablesKernel(), isFallback)
  }

  private constructor(options: ModeOptions, kernel: IptablesKernel, isFallback: boolean) {
    const { problems, log, now, listener } = options
    this.#options = options
    this.#isFallback = isFallback
    this.#kernel = kernel
    this.dataplane = new IptablesDataplane({
      iptables: kernel.iptables,
      rules: {
        nft: nftAccessOf(kernel.iptables),
        onRead: foreignRulesReporter(problems),
        serves: (address) => this.dataplane.serves(address),
        now,
      },
      settings: options.configuration(),
      localhostNodePorts: this.#localhostNodePorts,
      families: kernel.families,
      conntrack: kernel.conntrack,
      onFlowsRemoved: listener.flowsRemoved,
      now,
      onPass: (report, durationMs, loop, full) => {
        const failed = report.failures.length > 0
        this.#counts[loop.family].passed({ full, changed: report.applied > 0, failed, durationMs })
        this.#openLocalnetOnceGuarded()
        // A module may have been unloaded since the start.
        if (failed) void this.#askForMatches(this.#abort.signal)
        listener.partPassed(loop, report, durationMs)
      },
      onMissing: ({ code, feature, remedy, message }) =>
        problems.report('iptables', feature, [{ code, about: 'node', subject: remedy, message }]),
      onError: (error) => log.error('Writing rules failed', { error }),
    })
  }

  get #localhostNodePorts(): boolean {
    return !this.#isFallback && this.#options.configuration().iptables.localhostNodePorts
  }

  get families() {
    return this.#kernel.families
  }

  get support() {
    return this.#kernel.support
  }

  get rtnetlink() {
    return this.#kernel.rtnetlink
  }

  get parts() {
    return this.dataplane.loops.all
  }

  get sources(): KernelSources {
    const { rtnetlink } = this
    return {
      tables: this.dataplane.loops.all.map(({ sync }) => sync),
      connections: () => [{ name: 'rtnetlink', ...rtnetlink.counters }],
      rules: {
        families: this.families.map((family) => ({
          family,
          counts: this.#counts[family],
          written: () => this.dataplane.rulesWritten(family),
          owned: () => this.dataplane.rulesOwned(family),
        })),
        packets: async () => (this.#hasCounters ? countedPackets().catch(() => undefined) : undefined),
      },
    }
  }

  /** Most chains belong to Services. */
  outliers(): readonly never[] {
    return []
  }

  drains(): readonly never[] {
    return []
  }

  tableHealth(): readonly TableHealth[] {
    return this.dataplane.loops.all.map(({ sync, family }) => ({
      what: sync.kind.name,
      families: [family],
      wrong: isTableFaulty(sync),
    }))
  }

  nodeChanged({ context, addresses, podCidrs }: NodeView): void {
    const { nodePortAddresses } = this.#options.configuration()
    const nodePorts = nodePortRangesOf(nodePortAddresses, addresses, context.nodeIps)
    for (const places of Object.values(nodePorts.places)) if (places !== 'all') this.#reportLoopback(places)
    this.dataplane.nodeChanged({ podCidrs, nodePorts })
  }

  /** nodePortAddresses may contain loopback addresses now. */
  reconfigured(): void {
    this.#openLocalnet = routeLocalnet(this.#settings)
    this.#openLocalnetOnceGuarded()
  }

  async prepare(signal: AbortSignal): Promise<void> {
    const { mode, reason } = this.#kernel.iptables.choice
    this.#options.log.info('Using iptables', { backEnd: mode, reason })
    this.#openLocalnet = initializeIptablesNode(this.#settings)
    this.#hasCounters = await this.#makeCounters(signal)
    this.dataplane.setKernel({ hasCounters: this.#hasCounters, isLiberal: isLiberal() })
    await this.#askForMatches(signal)
  }

  watch({ onNodeAddresses, onForeignWrite }: ModeWatch): { close(): void } {
    const { log } = this.#options
    const addresses = watchAddresses(onNodeAddresses, (error) =>
      log.warn('Lost announcements of the kernel; reading addresses again', { error }),
    )
    const rules = watchRules({
      iptables: this.#kernel.iptables,
      layout: IPTABLES_LAYOUT,
      settleMs: SETTLE_MS,
      onForeignWrite,
      watches: (family, table, chain) => this.dataplane.watches(family, table, chain),
      doubtRules: (family) => this.dataplane.loops.doubt(family),
      onError: (error) => log.warn('Lost announcements of changed rules; reading all rules again', { error }),
    })
    this.dataplane.loops.request()
    return {
      close() {
        rules.close()
        addresses.close()
      },
    }
  }

  audit(_watch: ModeWatch, observer: AuditObserver, signal: AbortSignal): Promise<void> {
    const { log, now, configuration } = this.#options
    // nf_tables announces every change, so audits only find what the announcements miss.
    const announces = this.#kernel.iptables.choice.mode === 'nft'
    const { syncPeriodMs } = periodsOf(configuration())
    return auditPeriodically({
      periodMs: announces ? Math.max(syncPeriodMs, FULL_SYNC_MS) : syncPeriodMs,
      round: async () => {
        await this.#askForMatches(signal)
        for (const family of this.families) this.dataplane.loops.doubt(family)
        observer.ended('rules', 0, false)
      },
      onError: (error) => log.warn('An audit failed', { error }),
      now,
      signal,
    })
  }

  /** Logs in the words of kube-proxy, but once for each address. */
  #reportLoopback(places: readonly string[]): void {
    const { log } = this.#options
    for (const address of places) {
      const reason = loopbackRefusal(address, this.#localhostNodePorts)
      if (reason === undefined || this.#reported.has(address)) continue
      this.#reported.add(address)
      log.error(reason, { address })
    }
  }

  /** Begins to remove what ipvs mode and nftables mode left, as soon as all rules are in the kernel. */
  passed(): void {
    if (this.#leftoversRemoval !== undefined || !this.dataplane.isComplete) return
    this.#leftoversRemoval = this.#removeLeftovers()
  }

  async close(): Promise<void> {
    this.#abort.abort()
    await this.dataplane.loops.close()
    await this.#leftoversRemoval
    this.#kernel.close()
  }

  get #settings(): LocalnetOptions {
    const { configuration, problems, log } = this.#options
    return { configuration: configuration(), localhostNodePorts: this.#localhostNodePorts, problems, log }
  }

  #openLocalnetOnceGuarded(): void {
    if (this.#openLocalnet === undefined || !this.dataplane.guardsLoopback) return
    this.#openLocalnet()
    this.#openLocalnet = undefined
  }

  async #removeLeftovers(): Promise<void> {
    const { removeOtherModes } = await import('./other-modes.ts')
    await removeOtherModes(this.#kernel, this.#options, this.#abort.signal)
  }

  /** Rules of Services are written without a match that the kernel lacks, until it has it. Never rejects. */
  async #askForMatches(signal: AbortSignal): Promise<void> {
    const matches = await askForMatches(this.#kernel, this.#options, signal)
    if (matches !== undefined) this.dataplane.setMatches(matches)
  }

  async #makeCounters(signal: AbortSignal): Promise<boolean> {
    try {
      return await makeCounters(this.#kernel, signal)
    } catch (error) {
      signal.throwIfAborted()
      this.#options.log.warn('Cannot create counters for dropped packets; rules are written without them', { error })
      return false
    }
  }
}

/** Until connection tracking is loaded there is no setting, and its default is 0. */
const isLiberal = (): boolean => isSysctlOn(LIBERAL) ?? false
