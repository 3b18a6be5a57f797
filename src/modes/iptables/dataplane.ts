/**
 * iptables mode: turns frontends into the chains of both families. A loop for each family writes
 * only the chains that differ, in one restore, so that a family whose programs hang or fail does
 * not delay the other one.
 */
import type { KubeProxyConfiguration } from '../../config/types.ts'
import type { FlowTable } from '../../conntrack/connection.ts'
import { StaleFlows, type StaleFlowsOptions } from '../../conntrack/stale-flows.ts'
import type { IptablesItem, IptablesOperation, IptablesPrograms, TableId } from '../../iptables/types.ts'
import { IPTABLES_LAYOUT } from '../leftovers/layouts.ts'
import { LOOPBACK_GUARD } from './chains/chain-names.ts'
import { type LocalTrafficSettings, localTrafficOf } from '../../iptables/local-traffic.ts'
import { IptablesTable, type IptablesTableOptions } from '../../iptables/table.ts'
import { type ServiceChainSettings, WantedServiceChains } from './chains/wanted-service-chains.ts'
import type { IptablesChoice } from '../../node/iptables-choice.ts'
import type { ServicePort } from '../../service/service-port.ts'
import {
  familyOfKey,
  type Frontend,
  type FrontendKey,
  frontendKey,
  mayServe,
  nodePortKey,
  parseFrontendKey,
  parseNodePortKey,
} from '../../service/frontends.ts'
import type { NodePortRanges } from '../../service/node-addresses.ts'
import type { Dataplane } from '../../sync/loop.ts'
import type { PlanRow } from '../../sync/plan.ts'
import type { PassReport } from '../../sync/pass.ts'
import { reconciled } from '../../sync/reconciled.ts'
import { Reconciler } from '../../sync/reconciler.ts'
import { familyOf } from '../../values/address.ts'
import type { MissingFeature } from '../../values/errors.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { type RuleLoop, type RuleLoopOptions, RuleLoops } from '../rule-loops.ts'
import type { Clock } from '../../values/clock.ts'
import type { Wanted } from '../../explain/wanted.ts'

export interface IptablesDataplaneOptions {
  readonly iptables: IptablesPrograms & { readonly choice: Pick<IptablesChoice, 'randomFully' | 'suffix'> }
  /** How rules are read. */
  readonly rules?: Omit<IptablesTableOptions, 'suffix'>
  readonly settings: LocalTrafficSettings & Pick<KubeProxyConfiguration, 'iptables'>
  /** Whether node ports answer at 127.0.0.0/8. */
  readonly localhostNodePorts: boolean
  readonly families: readonly IpFamily[]
  readonly conntrack: FlowTable
  readonly onFlowsRemoved?: StaleFlowsOptions['onRemoved']
  readonly now: Clock
  /** Called after each pass over the rules of a family. */
  readonly onPass: RuleLoopOptions<IptablesItem, IptablesOperation>['onPass']
  readonly onMissing: (error: MissingFeature) => void
  readonly onError: (error: unknown) => void
}

/** What rules depend on of the node. */
export interface NodeFacts {
  readonly podCidrs: readonly string[]
  readonly nodePorts: NodePortRanges
}

/** Matches that rules of Services need. */
export interface ServiceMatches {
  readonly hasRecent: boolean
  readonly hasStatistic: boolean
}

export interface KernelFacts {
  /** Whether rules may name counters (nfacct). */
  readonly hasCounters: boolean
  /** Whether connection tracking is liberal (nf_conntrack_tcp_be_liberal): then no packet is dropped as invalid. */
  readonly isLiberal: boolean
}

const NOTHING_DONE: PassReport = { applied: 0, failures: [], repairs: [], unreadable: [] }

export class IptablesDataplane implements Dataplane {
  readonly staleFlows: StaleFlows
  readonly loops: RuleLoops<IptablesItem, IptablesOperation>
  readonly #tables: readonly IptablesTable[]
  readonly #options: IptablesDataplaneOptions
  /** The desired chains of each family. */
  readonly #wanted = new Map<IpFamily, WantedServiceChains>()
  #nodePortAddresses: NodePortRanges['addresses'] = { IPv4: [], IPv6: [] }
  #isFirstPass = true

  constructor(options: IptablesDataplaneOptions) {
    this.#options = options
    const { iptables, families, conntrack, now, onPass, onError } = options
    const { suffix } = iptables.choice
    this.#tables = families.map(
      (family) => new IptablesTable(family, iptables, IPTABLES_LAYOUT, { ...options.rules, suffix }),
    )
    this.loops = new RuleLoops(this.#tables, { now, onPass, onMissing: (error) => this.#lacks(error), onError })
    for (const family of families) this.#wanted.set(family, new WantedServiceChains(this.#settingsOf(family)))
    this.staleFlows = new StaleFlows({
      conntrack,
      isSettled: (key) => this.#isSettled(key),
      onRemoved: options.onFlowsRemoved,
    })
  }

  nodeChanged({ podCidrs, nodePorts }: NodeFacts): void {
    const before = this.#nodePortAddresses
    this.#nodePortAddresses = nodePorts.addresses
    for (const [family, wanted] of this.#wanted) {
      const added = nodePorts.addresses[family].filter((address) => !before[family].includes(address))
      // Until the rules name a new address, datagrams to it make flows without a translation.
      if (added.length > 0)
        for (const { key, servicePort } of wanted.frontends()) this.#suspectNodePort(key, servicePort, added)
    }
    const { settings, localhostNodePorts } = this.#options
    for (const [family, wanted] of this.#wanted)
      wanted.configure({
        localTraffic: localTrafficOf(settings, podCidrs, family),
        nodePortPlaces: nodePorts.places[family],
        localhostNodePorts: localhostNodePorts && nodePorts.includesLoopback,
      })
  }

  /** To be called before the first pass: the default is a kernel with every feature. */
  setKernel({ hasCounters, isLiberal }: KernelFacts): void {
    for (const wanted of this.#wanted.values())
      wanted.configure({ countsInvalid: hasCounters, countsLoopback: hasCounters, dropsInvalid: !isLiberal })
  }

  /** Renders the rules of Services without the matches that the kernel lacks. The default is a kernel with both. */
  setMatches(matches: ServiceMatches): void {
    for (const [family, wanted] of this.#wanted) {
      wanted.configure(matches)
      const loop = this.loops.of(family)
      if (!this.#isFirstPass && loop !== undefined && this.#submit(loop) > 0) loop.request()
    }
  }

  frontend(key: FrontendKey, frontend: Frontend | undefined): void {
    const family = familyOfKey(key)
    this.#wanted.get(family)?.frontend(key, frontend)
    if (parseNodePortKey(key) === undefined) this.staleFlows.suspect(key, frontend?.servicePort)
    else this.#suspectNodePort(key, frontend?.servicePort, this.#nodePortAddresses[family])
  }

  /** The flows of a node port have the node's addresses as their destinations. */
  #suspectNodePort(key: FrontendKey, servicePort: ServicePort | undefined, addresses: readonly string[]): void {
    const nodePort = parseNodePortKey(key)
    if (nodePort?.protocol !== 'udp') return
    for (const address of addresses) this.staleFlows.suspect(frontendKey(address, nodePort.port, 'udp'), servicePort)
  }

  /** Gives the changed chains to the loops, which write them and report. */
  async pass({ mayRemove }: { readonly mayRemove: boolean }): Promise<PassReport> {
    const failures: PassReport['failures'][number][] = []
    for (const loop of this.loops.all) {
      const changes = this.#submit(loop)
      if (changes > 0 || this.#isFirstPass) loop.request()
      if (mayRemove) loop.allowRemovals()
      // There is no retry: only a change of the Service helps, and that renders its rules again.
      for (const [key, error] of this.#wanted.get(loop.family)?.takeRefused() ?? [])
        failures.push({
          table: loop.sync.kind.name,
          key,
          command: '',
          error,
          attempts: 1,
          retryAtMs: Number.POSITIVE_INFINITY,
        })
    }
    this.#isFirstPass = false
    return failures.length === 0 ? NOTHING_DONE : { ...NOTHING_DONE, failures }
  }

  /** What the next pass would find and do. */
  plan(signal: AbortSignal): Promise<PlanRow[]> {
    for (const loop of this.loops.all) this.#submit(loop)
    const tables = this.loops.all.map(({ sync }) => reconciled(sync))
    return new Reconciler(tables).plan({ signal, now: this.#options.now })
  }

  /** What is wanted for these frontends, as last given to the loops. */
  *wanted(frontends: readonly Frontend[]): Generator<Wanted, void, void> {
    for (const [family, wanted] of this.#wanted) {
      const ports = new Map<string, ServicePort>()
      for (const { key, servicePort } of frontends)
        if (familyOfKey(key) === family) ports.set(`${servicePort.name} ${servicePort.protocol}`, servicePort)
      for (const { name: neededBy, protocol } of ports.values())
        for (const row of wanted.rowsOf(neededBy, protocol)) yield { ...row, table: `chains-${family}`, neededBy }
    }
  }

  /** The loops run on their own timers. */
  nextDueMs(): undefined {
    return undefined
  }

  /** Whether a Service has this address on this node; node ports are at those of the node. */
  serves(address: string): boolean {
    const family = familyOf(address)
    const keys = this.#wanted.get(family)?.frontendKeys() ?? []
    return this.#nodePortAddresses[family].includes(address) || mayServe(keys, address)
  }

  /** Whether removals were permitted, and the kernel has every desired rule but those that it always refuses. */
  get isComplete(): boolean {
    return !this.#isFirstPass && this.loops.isClean
  }

  /** Whether the kernel has the rule that drops packets from outside to 127.0.0.0/8, and the jumps to its chain. */
  get guardsLoopback(): boolean {
    const sync = this.loops.of('IPv4')?.sync
    return LOOPBACK_GUARD.every((key) => {
      const wanted = sync?.desired(key)
      return wanted !== undefined && wanted === sync?.live(key)
    })
  }

  /** Whether a rule that is added to this chain of others may take packets before ours. */
  watches(family: IpFamily, table: TableId, chain: string): boolean {
    return this.#table(family)?.watches(table, chain) ?? false
  }

  #table(family: IpFamily): IptablesTable | undefined {
    return this.#tables.find((table) => table.family === family)
  }

  /** Rules of this family in the last restore, by table. */
  rulesWritten(family: IpFamily): ReadonlyMap<TableId, number> {
    return this.#table(family)?.lastWritten ?? new Map()
  }

  /** Rules of this family that are ours and in the kernel, by table; jumps to our chains not counted. */
  rulesOwned(family: IpFamily): ReadonlyMap<TableId, number> {
    const owned = new Map<TableId, number>()
    const sync = this.loops.of(family)?.sync
    sync?.forEachLive((item, key) => {
      if (item.kind === 'chain' && sync.desired(key) !== undefined)
        owned.set(item.table, (owned.get(item.table) ?? 0) + item.rules.length)
    })
    return owned
  }

  /** Gives the changed chains of a family to its loop; returns their number. */
  #submit(loop: RuleLoop<IptablesItem, IptablesOperation>): number {
    const changes = this.#wanted.get(loop.family)?.changes() ?? []
    for (const { key, item } of changes) loop.sync.want(key, item)
    return changes.length
  }

  #settingsOf(family: IpFamily): ServiceChainSettings {
    const { settings, localhostNodePorts, iptables } = this.#options
    return {
      family,
      masqueradeBit: settings.iptables.masqueradeBit,
      masqueradeAll: settings.iptables.masqueradeAll,
      randomFully: iptables.choice.randomFully,
      localhostNodePorts,
      dropsInvalid: true,
      countsInvalid: true,
      countsLoopback: true,
      hasRecent: true,
      hasStatistic: true,
      localTraffic: localTrafficOf(settings, [], family),
      nodePortPlaces: 'all',
    }
  }

  /** Writes the rules without counters, which are the only optional match of this mode. */
  #lacks(error: MissingFeature): void {
    for (const loop of this.loops.all) {
      this.#wanted.get(loop.family)?.configure({ countsInvalid: false, countsLoopback: false })
      this.#submit(loop)
      loop.request()
    }
    this.#options.onMissing(error)
  }

  /** Whether the kernel has the desired rules of this frontend, or of the node port at this address. */
  #isSettled(key: FrontendKey): boolean {
    const { family, port, protocol } = parseFrontendKey(key)
    const [wanted, loop] = [this.#wanted.get(family), this.loops.of(family)]
    if (wanted === undefined || loop === undefined) return true
    if (loop.isPending) return false
    const keys = [key, nodePortKey(family, port, protocol)]
    if (!keys.every((one) => wanted.isRendered(one))) return false
    const chains = ['nat KUBE-SERVICES', 'nat KUBE-NODEPORTS', ...keys.flatMap((one) => [...wanted.chainsOf(one)])]
    return chains.every((chain) => loop.sync.desired(chain) === loop.sync.live(chain))
  }
}
