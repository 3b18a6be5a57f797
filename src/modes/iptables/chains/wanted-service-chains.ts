/**
 * The desired chains and jumps of iptables mode in one family, updated one frontend at a time: only
 * Service ports that changed are rendered, and a chain that all Services share is built again only
 * when one of its rules changed. `changes` returns the difference from its previous result, so all
 * results must be given to the same table.
 */
import { sameList } from '../../../values/lists.ts'
import type { ServicePort } from '../../../service/service-port.ts'
import type { Frontend, FrontendKey } from '../../../service/frontends.ts'
import { CodedError } from '../../../values/errors.ts'
import { chainKey, jumpKey, jumpRule } from '../../../iptables/layout.ts'
import { sameItem } from '../../../iptables/diff.ts'
import { type FixedInput, type NodePortPlaces, nodePortJumps, renderFixedChains } from './fixed-render.ts'
import { FIXED_CHAINS, IPTABLES_JUMPS } from './chain-names.ts'
import { servedPortOf } from './served-port.ts'
import {
  renderServicePort,
  type ServicePortRules,
  type ServicePortSettings,
  SHARED_CHAINS,
  type SharedChain,
} from './service-port-render.ts'
import type { Protocol } from '../../../values/protocol.ts'
import type { IptablesItem, TableId } from '../../../iptables/types.ts'
import type { Wanted } from '../../../explain/wanted.ts'

/** What the rules of a family depend on, apart from its Services. */
export interface ServiceChainSettings
  extends FixedInput,
    Pick<ServicePortSettings, 'localTraffic' | 'masqueradeAll' | 'hasRecent' | 'hasStatistic'> {
  /** Whether the kernel has the counter of traffic to node ports at loopback. */
  readonly countsLoopback: boolean
  readonly nodePortPlaces: NodePortPlaces
}

export interface ChainChange {
  readonly key: string
  /** undefined: the chain is no longer desired. */
  readonly item: IptablesItem | undefined
}

/** With more endpoints than this their rules have no comments (kube-proxy's largeClusterEndpointsThreshold). */
const LARGE_CLUSTER_ENDPOINTS = 1000

interface PortChains {
  /** As of the frontend that changed last. */
  servicePort: ServicePort
  readonly frontends: Map<FrontendKey, Frontend>
  /** Number of its candidates as counted in WantedServiceChains. */
  endpoints: number
  rules: ServicePortRules | undefined
}

const NO_RULES: ServicePortRules = { chains: new Map(), shared: new Map() }
const NONE: readonly string[] = []

export class WantedServiceChains {
  #settings: ServiceChainSettings
  /** By `name protocol`. A space sorts before every character that may continue a longer name. */
  readonly #ports = new Map<string, PortChains>()
  readonly #portOf = new Map<FrontendKey, string>()
  readonly #dirty = new Set<string>()
  readonly #dirtyShared = new Set<SharedChain>(SHARED_CHAINS)
  /** Sorted keys of `#ports`; undefined after a port was added or removed. */
  #sorted: readonly string[] | undefined
  /** The fixed chains and jumps that `changes` returned last. */
  readonly #fixed = new Map<string, IptablesItem>()
  /** Since the last call of `takeRefused`. */
  readonly #refused = new Map<string, CodedError>()
  #fixedDirty = true
  /** Candidates of all ports together. */
  #endpoints = 0

  constructor(settings: ServiceChainSettings) {
    this.#settings = settings
  }

  /** Changes settings. The next call of `changes` renders everything that depends on them. */
  configure(change: Partial<ServiceChainSettings>): void {
    const before = this.#settings
    const now = { ...before, ...change }
    if (JSON.stringify(before) === JSON.stringify(now)) return
    this.#settings = now
    this.#fixedDirty = true
    this.#dirtyShared.add('nat KUBE-SERVICES')
    const sameForPorts =
      before.countsLoopback === now.countsLoopback &&
      before.hasRecent === now.hasRecent &&
      before.hasStatistic === now.hasStatistic &&
      before.localhostNodePorts === now.localhostNodePorts &&
      JSON.stringify(before.localTraffic) === JSON.stringify(now.localTraffic)
    if (!sameForPorts) for (const port of this.#ports.keys()) this.#dirty.add(port)
  }

  /** The winning frontend at a key; undefined when there is none, or when it is of another family. */
  frontend(key: FrontendKey, frontend: Frontend | undefined): void {
    const before = this.#portOf.get(key)
    const servicePort = frontend?.servicePort
    const now = servicePort === undefined ? undefined : `${servicePort.name} ${servicePort.protocol}`
    if (before !== undefined && before !== now) {
      const left = this.#ports.get(before)
      left?.frontends.delete(key)
      this.#portOf.delete(key)
      this.#touch(before, left === undefined || left.frontends.size === 0 ? 0 : left.endpoints)
    }
    if (frontend === undefined || servicePort === undefined || now === undefined) return
    this.#portOf.set(key, now)
    const port = this.#ports.get(now)
    if (port !== undefined) {
      port.frontends.set(key, frontend)
      port.servicePort = servicePort
    } else {
      this.#ports.set(now, { servicePort, frontends: new Map([[key, frontend]]), endpoints: 0, rules: undefined })
      this.#sorted = undefined
    }
    this.#touch(now, servicePort.candidates.length)
  }

  /** Chains and jumps that changed since the last call; the first call returns all of them. */
  changes(): readonly ChainChange[] {
    const changes: ChainChange[] = []
    // A chain precedes the rules that jump to it.
    if (this.#fixedDirty) this.#addFixed(this.#fixedChains(), changes)
    for (const name of this.#dirty) this.#renderPort(name, changes)
    this.#dirty.clear()
    for (const shared of SHARED_CHAINS) if (this.#dirtyShared.has(shared)) changes.push(this.#sharedChain(shared))
    this.#dirtyShared.clear()
    if (this.#fixedDirty) this.#addFixed(jumps(), changes)
    this.#fixedDirty = false
    return changes
  }

  /** Ports that `changes` left out since the last call because their rules cannot be written, by name and protocol. */
  takeRefused(): ReadonlyMap<string, CodedError> {
    const refused = new Map(this.#refused)
    this.#refused.clear()
    return refused
  }

  /** Whether `changes` has returned the current chains of this frontend's port, and the shared ones. */
  isRendered(key: FrontendKey): boolean {
    const port = this.#portOf.get(key)
    if (this.#dirtyShared.size > 0) return false
    return port === undefined || !this.#dirty.has(port)
  }

  frontendKeys(): IterableIterator<FrontendKey> {
    return this.#portOf.keys()
  }

  *frontends(): Generator<Frontend, void, void> {
    for (const { frontends } of this.#ports.values()) yield* frontends.values()
  }

  /** Names of the chains of this frontend's port. */
  *chainsOf(key: FrontendKey): Generator<string, void, undefined> {
    const rules = this.#ports.get(this.#portOf.get(key) ?? '')?.rules
    for (const chain of rules?.chains.keys() ?? []) yield chainKey('nat', chain)
    for (const chain of rules?.shared.keys() ?? []) yield chain
  }

  /** The chains of a Service port, and its rules in the chains that all Services share. */
  *rowsOf(servicePort: string, protocol: Protocol): Generator<Pick<Wanted<'chains-IPv4'>, 'key' | 'item' | 'isPart'>> {
    const rendered = this.#ports.get(`${servicePort} ${protocol}`)?.rules
    for (const [key, rules] of rendered?.shared ?? []) {
      const [table = '', chain = ''] = key.split(' ')
      // Every SharedChain begins with a TableId.
      const item = { kind: 'chain', table: table as TableId, chain } as const
      for (const rule of rules) yield { key, item: { ...item, rules: [rule] }, isPart: true }
    }
    for (const [chain, rules] of rendered?.chains ?? [])
      yield { key: chainKey('nat', chain), item: { kind: 'chain', table: 'nat', chain, rules } }
  }

  /** @param endpoints the number of candidates of the port now */
  #touch(name: string, endpoints: number): void {
    this.#dirty.add(name)
    const port = this.#ports.get(name)
    if (port === undefined) return
    this.#endpoints += endpoints - port.endpoints
    port.endpoints = endpoints
  }

  #renderPort(name: string, changes: ChainChange[]): void {
    const port = this.#ports.get(name)
    if (port === undefined) return
    const isServed = port.frontends.size > 0
    const before = port.rules ?? NO_RULES
    const now = isServed ? this.#rulesOf(name, port) : NO_RULES
    for (const [chain, rules] of now.chains) {
      const old = before.chains.get(chain)
      if (old === undefined || !sameList(old, rules)) changes.push(itemOf('nat', chain, rules))
    }
    for (const chain of before.chains.keys())
      if (!now.chains.has(chain)) changes.push({ key: chainKey('nat', chain), item: undefined })
    for (const shared of SHARED_CHAINS)
      if (!sameList(before.shared.get(shared) ?? NONE, now.shared.get(shared) ?? NONE)) this.#dirtyShared.add(shared)
    if (isServed) port.rules = now
    else {
      this.#ports.delete(name)
      this.#sorted = undefined
    }
  }

  /** Returns no rules for a port whose rules cannot be written, so that the other ports get theirs. */
  #rulesOf(name: string, { servicePort, frontends }: PortChains): ServicePortRules {
    const { family, countsLoopback, localhostNodePorts } = this.#settings
    try {
      return renderServicePort(servedPortOf(servicePort, frontends.values()), {
        ...this.#settings,
        countsLoopback: countsLoopback && localhostNodePorts && family === 'IPv4',
        withComments: this.#endpoints <= LARGE_CLUSTER_ENDPOINTS,
      })
    } catch (error) {
      if (!(error instanceof CodedError)) throw error
      this.#refused.set(name, error)
      return NO_RULES
    }
  }

  /** All rules of a shared chain, in the order of the names of Service ports, so that a restart changes nothing. */
  #sharedRules(shared: SharedChain): readonly string[] {
    this.#sorted ??= Array.from(this.#ports.keys()).sort()
    const rules: string[] = []
    for (const name of this.#sorted) {
      const own = this.#ports.get(name)?.rules?.shared.get(shared)
      if (own !== undefined) for (const rule of own) rules.push(rule)
    }
    if (shared === 'nat KUBE-SERVICES') rules.push(...nodePortJumps(this.#settings.nodePortPlaces, this.#settings))
    return rules
  }

  #sharedChain(shared: SharedChain): ChainChange {
    const [table = '', chain = ''] = shared.split(' ')
    return itemOf(table as TableId, chain, this.#sharedRules(shared)) // every SharedChain begins with a TableId
  }

  #fixedChains(): readonly ChainChange[] {
    const rendered = renderFixedChains(this.#settings)
    return (['filter', 'nat', 'mangle'] as const).flatMap((table) =>
      FIXED_CHAINS[table]
        .filter((chain) => !SHARED_CHAINS.some((shared) => shared === chainKey(table, chain)))
        .map((chain) => itemOf(table, chain, rendered.get(chainKey(table, chain)) ?? NONE)),
    )
  }

  #addFixed(items: readonly ChainChange[], changes: ChainChange[]): void {
    for (const { key, item } of items) {
      const before = this.#fixed.get(key)
      if (item === undefined || (before !== undefined && sameItem(before, item))) continue
      this.#fixed.set(key, item)
      changes.push({ key, item })
    }
  }
}

function jumps(): readonly ChainChange[] {
  return IPTABLES_JUMPS.map((place) => {
    const { table, from } = place
    return { key: jumpKey(place), item: { kind: 'jump', table, chain: from, rule: jumpRule(place), copies: 1 } }
  })
}

function itemOf(table: TableId, chain: string, rules: readonly string[]): ChainChange {
  return { key: chainKey(table, chain), item: { kind: 'chain', table, chain, rules } }
}
