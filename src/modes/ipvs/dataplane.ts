/**
 * Hands frontends to the tables of ipvs mode, and joins those to the reconciler. A virtual server
 * is added before the address that brings it traffic, and removed after it.
 */
import type { FlowTable } from '../../conntrack/connection.ts'
import { StaleFlows, type StaleFlowsOptions } from '../../conntrack/stale-flows.ts'
import type { Wanted } from '../../explain/wanted.ts'
import { DEVICE_KIND, type Device, type DeviceOperation } from '../../ipvs/address-diff.ts'
import { sameVirtualServer } from '../../ipvs/diff.ts'
import type { Drains } from '../../ipvs/drains.ts'
import type { VirtualServer, VirtualServerOperation } from '../../ipvs/types.ts'
import { type Frontend, type FrontendKey, hasAddress } from '../../service/frontends.ts'
import type { Dataplane, DataplanePass } from '../../sync/loop.ts'
import type { PassReport } from '../../sync/pass.ts'
import type { PlanRow } from '../../sync/plan.ts'
import { type Reconciled, reconciled } from '../../sync/reconciled.ts'
import { Reconciler } from '../../sync/reconciler.ts'
import { TableSync } from '../../sync/table-sync.ts'
import { earliest } from '../../values/clock.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'
import type { ListedTable } from '../table-health.ts'
import type { ChosenSchedulers } from './chosen-schedulers.ts'
import { DrainChecks, type DrainChecksOptions } from './drain-checks.ts'
import type { Firewall, VirtualAddressKind } from './firewall.ts'
import { type IpvsTables, listTables } from './tables.ts'
import { VirtualAddresses } from './virtual-addresses.ts'
import { WantedVirtualServers } from './wanted-virtual-servers.ts'

export interface IpvsDataplaneOptions extends DrainChecksOptions {
  readonly tables: IpvsTables
  readonly firewall: Firewall
  readonly conntrack: FlowTable
  readonly schedulers: ChosenSchedulers
  /** Families that are served; frontends of other families are left out. */
  readonly families: readonly IpFamily[]
  readonly onFlowsRemoved?: StaleFlowsOptions['onRemoved']
  /** `kubeIPVS.outlierDetection`. Default false. */
  readonly outlierDetection?: boolean
}

export class IpvsDataplane implements Dataplane {
  readonly hasCheapPasses = true
  readonly virtualServers: TableSync<VirtualServer, VirtualServerOperation>
  readonly device: TableSync<Device, DeviceOperation>
  readonly virtualAddresses: VirtualAddresses
  readonly servers: WantedVirtualServers
  readonly staleFlows: StaleFlows
  /** Frontends whose address is bound once their virtual server exists. */
  readonly #toBind = new Set<FrontendKey>()
  readonly #drainChecks: DrainChecks
  /** The last pass knew the node, and read everything; what failed in it had failed before. */
  #isTried = false
  readonly #options: IpvsDataplaneOptions
  readonly #reconciler: Reconciler

  constructor(options: IpvsDataplaneOptions) {
    this.#options = options
    const { tables, firewall, conntrack } = options
    this.virtualServers = new TableSync(tables.virtualServers, {
      onExamined: (key) => this.#examined(key),
      mayAdd: (key, { family }) => firewall.mayAdd(key, family),
    })
    this.servers = new WantedVirtualServers(this.virtualServers, options)
    this.device = new TableSync(tables.device)
    this.virtualAddresses = new VirtualAddresses(tables)
    this.#drainChecks = new DrainChecks(this.virtualServers, options)
    this.staleFlows = new StaleFlows({
      conntrack,
      isSettled: (key) => this.#isSettled(key),
      onRemoved: options.onFlowsRemoved,
    })
    this.#reconciler = new Reconciler([...firewall.stages(() => this.virtualServers.release()), this.#ownTables])
    this.device.want(SERVICE_DEVICE, { kind: DEVICE_KIND })
  }

  get drains(): Drains {
    return this.#drainChecks.drains
  }

  get firewall(): Firewall {
    return this.#options.firewall
  }

  /**
   * Whether the kernel has everything that all Services need, and what each of them needs was
   * written or has failed again: what another proxy left is not needed any more.
   */
  get isComplete(): boolean {
    return this.#isTried && this.firewall.isComplete && !this.#listed.some((table) => isFaulty(table))
  }

  /** The tables beside those of the firewall. */
  get #listed(): readonly ListedTable[] {
    const { virtualServers, device } = this
    const { addresses, routes } = this.virtualAddresses
    return listTables({ virtualServers, device, addresses, routes }, this.#options.families)
  }

  /** Every table of the mode, for metrics and health. */
  get tables(): readonly ListedTable[] {
    return [...this.firewall.sources.tables, ...this.#listed]
  }

  /** Applies `kubeIPVS.virtualAddresses`. Costs nothing when it is in force. */
  use(kind: VirtualAddressKind): void {
    this.virtualAddresses.use(kind)
    this.firewall.node({ virtualAddresses: kind })
  }

  frontend(key: FrontendKey, wanted: Frontend | undefined): void {
    const isServed =
      wanted !== undefined && hasAddress(wanted) && this.#options.families.includes(wanted.servicePort.family)
    const frontend = isServed ? wanted : undefined
    this.firewall.frontend(key, frontend)
    this.#drainChecks.choose(key, frontend?.servicePort.choices.drainDeadlineMs)
    this.servers.frontend(key, frontend)
    this.staleFlows.suspect(key, frontend?.servicePort)
    if (frontend?.bind === true) {
      this.#toBind.add(key)
      this.virtualAddresses.expect(key)
    } else {
      this.#toBind.delete(key)
      this.virtualAddresses.set(key, false)
    }
  }

  async pass(options: DataplanePass): Promise<PassReport> {
    await this.servers.askSchedulers(options.signal)
    this.servers.stepSlowStarts()
    const idle = await this.#drainChecks.take(options)
    const passOptions = { ...options, now: this.#options.now, idle }
    const report = await this.#reconciler.pass(passOptions)
    const isKnown = options.mayRemove && report.unreadable.length === 0
    this.#isTried = isKnown && report.failures.every(({ attempts }) => attempts > 1)
    const servesAll = isKnown && this.virtualServers.waitingCount === 0
    return this.firewall.passed(servesAll) ? joined(report, await this.#reconciler.pass(passOptions)) : report
  }

  /** What the next pass would find and do. */
  async plan(signal: AbortSignal): Promise<PlanRow[]> {
    await this.servers.askSchedulers(signal)
    for (const key of this.#toBind) this.virtualAddresses.set(key, true)
    this.#toBind.clear()
    await this.servers.acceptChanging(signal)
    const all = new Reconciler([...this.firewall.plan(), ...this.#ownTables])
    return all.plan({ signal, now: this.#options.now })
  }

  get #ownTables(): readonly Reconciled[] {
    return [reconciled(this.virtualServers), reconciled(this.device), ...this.virtualAddresses.tables]
  }

  #examined(key: FrontendKey): void {
    this.#drainChecks.observe(key)
    const live = this.virtualServers.live(key)
    // The address brings the traffic, so it is added after the virtual server.
    if (live !== undefined && this.#toBind.delete(key)) this.virtualAddresses.set(key, true)
    else this.virtualAddresses.expectNothing(key)
    // A virtual server of an earlier process that was just removed has flows too.
    if (live === undefined && this.virtualServers.desired(key) === undefined) this.staleFlows.suspect(key, undefined)
  }

  /** Whether the kernel has what is wanted of this frontend. */
  #isSettled(key: FrontendKey): boolean {
    const [wanted, live] = [this.virtualServers.desired(key), this.virtualServers.live(key)]
    return wanted === undefined || live === undefined ? wanted === live : sameVirtualServer(wanted, live)
  }

  /**
   * What is wanted for these frontends. The addresses of virtual IPs count from the beginning, also
   * while their virtual server is missing.
   */
  *wanted(frontends: readonly Frontend[]): Generator<Wanted, void, void> {
    for (const { key: neededBy, address, bind } of frontends) {
      const server = this.virtualServers.desired(neededBy)
      if (server === undefined || address === undefined) continue
      yield { table: 'virtual-servers', key: neededBy, neededBy, item: server }
      if (bind) yield { ...this.virtualAddresses.wanted(address), neededBy }
      yield* this.firewall.wanted(neededBy)
    }
  }

  nextDueMs(): number | undefined {
    return earliest(
      this.#reconciler.nextDueMs(),
      this.drains.nextDueMs(),
      this.servers.nextDueMs(),
      this.firewall.nextDueMs(),
    )
  }
}

function isFaulty(table: ListedTable): boolean {
  return table.health().some(({ wrong }) => wrong)
}

/** Two passes as one. */
function joined(first: PassReport, second: PassReport): PassReport {
  return {
    applied: first.applied + second.applied,
    failures: [...first.failures, ...second.failures],
    repairs: [...first.repairs, ...second.repairs],
    unreadable: [...first.unreadable, ...second.unreadable],
  }
}
