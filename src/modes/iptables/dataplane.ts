/**
 * iptables mode: joins frontends to the chains of both families, each written by a loop of its own.
 * What could break: a change is one restore of just the chains that differ; a family whose programs hang or fail holds
 * nothing else up.
 */
import { gate } from '../../config/gates.ts'
import type { KubeProxyConfiguration } from '../../config/types.ts'
import type { FlowTable } from '../../conntrack/connection.ts'
import { StaleFlows, type StaleFlowsOptions } from '../../conntrack/stale-flows.ts'
import type { MissingMatchError } from '../../iptables/errors.ts'
import { IPTABLES_LAYOUT } from '../leftovers/layouts.ts'
import { LOOPBACK_GUARD } from './chains/chain-names.ts'
import { type LocalTrafficSettings, localTrafficOf } from '../../iptables/local-traffic.ts'
import { IptablesTable } from '../../iptables/table.ts'
import { type ServiceChainSettings, WantedServiceChains } from './chains/wanted-service-chains.ts'
import type { TableId } from '../../iptables/types.ts'
import type { HostIptables } from '../../node/iptables-programs.ts'
import { type Frontend, type FrontendKey, frontendKey, parseFrontendKey } from '../../service/frontends.ts'
import type { NodePortRanges } from '../../service/node-addresses.ts'
import type { Dataplane } from '../../sync/loop.ts'
import { type PassReport, Reconciler, reconciled } from '../../sync/reconciler.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { RuleLoop, type RuleLoopOptions } from '../rule-loop.ts'
import type { Clock } from '../../values/clock.ts'
import { ANY_ADDRESS } from '../../values/well-known.ts'

export interface IptablesDataplaneOptions {
  readonly iptables: HostIptables
  readonly settings: LocalTrafficSettings & Pick<KubeProxyConfiguration, 'featureGates' | 'iptables'>
  readonly families: readonly IpFamily[]
  readonly nodeName: string
  readonly conntrack: FlowTable
  readonly onFlowsRemoved?: StaleFlowsOptions['onRemoved']
  readonly now: Clock
  /** Hears of each pass over the rules of a family. */
  readonly onPass: RuleLoopOptions['onPass']
  readonly onMissing: (error: MissingMatchError) => void
  readonly onError: (error: unknown) => void
}

/** What the dataplane must know of the node. */
export interface NodeFacts {
  readonly zone: string | undefined
  readonly podCidrs: readonly string[]
  readonly nodePorts: NodePortRanges
}

export interface KernelFacts {
  /** Whether rules may name counters (nfacct). */
  readonly hasCounters: boolean
  /** Whether connection tracking was told to be liberal (nf_conntrack_tcp_be_liberal): then nothing is dropped as invalid. */
  readonly isLiberal: boolean
}

interface Family {
  readonly wanted: WantedServiceChains
  readonly table: IptablesTable
  readonly loop: RuleLoop
}

const NOTHING_DONE: PassReport = { applied: 0, failures: [], repairs: [], unreadable: [] }

export class IptablesDataplane implements Dataplane {
  readonly staleFlows: StaleFlows
  readonly #options: IptablesDataplaneOptions
  readonly #families = new Map<IpFamily, Family>()
  #nodePortAddresses: NodePortRanges['addresses'] = { IPv4: [], IPv6: [] }
  #first = true

  constructor(options: IptablesDataplaneOptions) {
    this.#options = options
    const { iptables, families, conntrack, now, onPass, onError } = options
    for (const family of families) {
      const table = new IptablesTable(family, iptables, IPTABLES_LAYOUT, iptables.choice.suffix)
      const onMissing = (error: MissingMatchError): void => this.#lacks(error)
      const loop = new RuleLoop({ table, now, onPass, onMissing, onError })
      this.#families.set(family, { wanted: new WantedServiceChains(this.#settingsOf(family)), table, loop })
    }
    this.staleFlows = new StaleFlows({
      conntrack,
      isSettled: (key) => this.#isSettled(key),
      onRemoved: options.onFlowsRemoved,
    })
  }

  /** Reads the rules ahead of the first pass. */
  readRules(): void {
    for (const { loop } of this.#families.values()) loop.request()
  }

  /** Somebody may have changed the rules of this family. */
  doubtRules(family: IpFamily): void {
    const loop = this.#families.get(family)?.loop
    loop?.sync.doubt('all')
    loop?.request()
  }

  nodeChanged({ zone, podCidrs, nodePorts }: NodeFacts): void {
    this.#nodePortAddresses = nodePorts.addresses
    const { settings, nodeName } = this.#options
    for (const [family, { wanted }] of this.#families)
      wanted.configure({
        place: { nodeName, zone },
        localTraffic: localTrafficOf(settings, podCidrs, family),
        nodePortPlaces: nodePorts.places[family],
        localhostNodePorts: settings.iptables.localhostNodePorts && nodePorts.includesLoopback,
      })
  }

  /** Call before the first pass: until then a kernel with everything is supposed. */
  kernelIs({ hasCounters, isLiberal }: KernelFacts): void {
    for (const { wanted } of this.#families.values())
      wanted.configure({ countsInvalid: hasCounters, countsLoopback: hasCounters, dropsInvalid: !isLiberal })
  }

  frontend(key: FrontendKey, frontend: Frontend | undefined): void {
    const family = frontend?.family ?? (key.startsWith('[') ? 'IPv6' : 'IPv4')
    this.#families.get(family)?.wanted.frontend(key, frontend)
    const { address, port, protocol } = parseFrontendKey(key)
    if (protocol !== 'udp') return
    // Flows to a node port go to one of the node's addresses.
    const addresses = address === ANY_ADDRESS[family] ? this.#nodePortAddresses[family] : [address]
    for (const one of addresses) this.staleFlows.suspect(frontendKey(one, port, protocol), frontend)
  }

  /** Hands on what is wanted; the loops do the work and tell. */
  async pass({ mayRemove }: { readonly mayRemove: boolean }): Promise<PassReport> {
    const failures: PassReport['failures'][number][] = []
    for (const { wanted, loop } of this.#families.values()) {
      const changes = wanted.changes()
      for (const { key, item } of changes) loop.sync.want(key, item)
      if (changes.length > 0 || this.#first) loop.request()
      if (mayRemove) loop.allowRemovals()
      // Nothing but a change of the Service helps, and that renders its rules again.
      for (const [key, error] of wanted.takeRefused())
        failures.push({
          table: loop.sync.table.name,
          key,
          command: '',
          error,
          attempts: 1,
          retryAtMs: Number.POSITIVE_INFINITY,
        })
    }
    this.#first = false
    return failures.length === 0 ? NOTHING_DONE : { ...NOTHING_DONE, failures }
  }

  /** What a pass would do, as commands. */
  preview(options: { readonly signal: AbortSignal; readonly mayRemove: boolean }): Promise<string[]> {
    const loops = Array.from(this.#families.values(), ({ wanted, loop }) => {
      for (const { key, item } of wanted.changes()) loop.sync.want(key, item)
      return reconciled(loop.sync)
    })
    return new Reconciler(loops).preview({ ...options, now: this.#options.now })
  }

  /** The loops know by themselves. */
  nextDueMs(): undefined {
    return undefined
  }

  /** Whether rules are being written. */
  get isPending(): boolean {
    return this.loops.some((loop) => loop.isPending)
  }

  /** Whether everything that is wanted is in the kernel, and what nothing wants was allowed to go. */
  get isComplete(): boolean {
    return !this.#first && this.loops.every((loop) => !loop.isPending && loop.isClean)
  }

  /** Whether the kernel has the rule that drops packets from outside to 127.0.0.0/8, and all that leads to it. */
  get guardsLoopback(): boolean {
    const { sync } = this.#families.get('IPv4')?.loop ?? {}
    return LOOPBACK_GUARD.every((key) => {
      const wanted = sync?.desired(key)
      return wanted !== undefined && wanted === sync?.live(key)
    })
  }

  get loops(): readonly RuleLoop[] {
    return Array.from(this.#families.values(), ({ loop }) => loop)
  }

  /** Rules of this family in the last restore, by table. */
  rulesWritten(family: IpFamily): ReadonlyMap<TableId, number> {
    return this.#families.get(family)?.table.lastWritten ?? new Map()
  }

  /** Rules of this family that are ours and in the kernel, by table; jumps to our chains not counted. */
  rulesOwned(family: IpFamily): ReadonlyMap<TableId, number> {
    const owned = new Map<TableId, number>()
    const { sync } = this.#families.get(family)?.loop ?? {}
    for (const [key, item] of sync?.liveEntries() ?? [])
      if (item.kind === 'chain' && sync?.desired(key) !== undefined)
        owned.set(item.table, (owned.get(item.table) ?? 0) + item.rules.length)
    return owned
  }

  /** Stops the loops; the kernel stays as it is. */
  async close(): Promise<void> {
    await Promise.all(this.loops.map((loop) => loop.close()))
  }

  #settingsOf(family: IpFamily): ServiceChainSettings {
    const { settings, nodeName, iptables } = this.#options
    return {
      family,
      masqueradeBit: settings.iptables.masqueradeBit,
      masqueradeAll: settings.iptables.masqueradeAll,
      randomFully: iptables.choice.randomFully,
      localhostNodePorts: settings.iptables.localhostNodePorts,
      dropsInvalid: true,
      countsInvalid: true,
      countsLoopback: true,
      localTraffic: localTrafficOf(settings, [], family),
      nodePortPlaces: 'all',
      place: { nodeName, zone: undefined },
      usesExternalIps: gate(settings, 'AllowServiceExternalIPs'),
    }
  }

  /** Counters are no loss that rules could not do without. */
  #lacks(error: MissingMatchError): void {
    for (const { wanted, loop } of this.#families.values()) {
      wanted.configure({ countsInvalid: false, countsLoopback: false })
      for (const { key, item } of wanted.changes()) loop.sync.want(key, item)
      loop.request()
    }
    this.#options.onMissing(error)
  }

  /** Whether the kernel has what is wanted of this frontend, or of the node port at this address. */
  #isSettled(key: FrontendKey): boolean {
    const { family, port, protocol } = parseFrontendKey(key)
    const { wanted, loop } = this.#families.get(family) ?? {}
    if (wanted === undefined || loop === undefined) return true
    if (loop.isPending) return false
    const keys = [key, frontendKey(ANY_ADDRESS[family], port, protocol)]
    if (!keys.every((one) => wanted.isRendered(one))) return false
    const chains = ['nat KUBE-SERVICES', 'nat KUBE-NODEPORTS', ...keys.flatMap((one) => [...wanted.chainsOf(one)])]
    return chains.every((chain) => loop.sync.desired(chain) === loop.sync.live(chain))
  }
}
