/**
 * Renders frontends into the tables of ipvs mode, and joins those to the reconciler. A virtual
 * server is added before the address that brings it traffic, and removed after it.
 */
import { DEVICE_KIND, type Device, type DeviceOperation } from '../../ipvs/address-diff.ts'
import type { FlowTable } from '../../conntrack/connection.ts'
import { StaleFlows, type StaleFlowsOptions } from '../../conntrack/stale-flows.ts'
import { sameVirtualServer } from '../../ipvs/diff.ts'
import type { Drains } from '../../ipvs/drains.ts'
import { acceptOutliers } from '../../ipvs/outlier-states.ts'
import { Outliers } from '../../ipvs/outliers.ts'
import { acceptStarting, SlowStarts } from '../../ipvs/slow-starts.ts'
import type { VirtualServer, VirtualServerOperation } from '../../ipvs/types.ts'
import { type AddressFrontend, type Frontend, type FrontendKey, hasAddress } from '../../service/frontends.ts'
import type { Dataplane, DataplanePass } from '../../sync/loop.ts'
import type { PlanRow } from '../../sync/plan.ts'
import type { PassReport } from '../../sync/pass.ts'
import { type Reconciled, reconciled } from '../../sync/reconciled.ts'
import { Reconciler } from '../../sync/reconciler.ts'
import { TableSync } from '../../sync/table-sync.ts'
import { newBudget } from '../../values/event-loop.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { DrainChecks, type DrainChecksOptions } from './drain-checks.ts'
import type { Firewall, VirtualAddressKind } from './firewall.ts'
import { SlowStartSteps } from './slow-start-steps.ts'
import type { ChosenSchedulers } from './chosen-schedulers.ts'
import { type IpvsTables, listTables } from './tables.ts'
import { VirtualAddresses } from './virtual-addresses.ts'
import { judgesOutliers, renderVirtualServer, slowStartOf } from './virtual-server-render.ts'
import type { ListedTable } from '../table-health.ts'
import type { Wanted } from '../../explain/wanted.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'

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
  readonly slowStarts = new SlowStarts()
  readonly outliers = new Outliers()
  readonly staleFlows: StaleFlows
  /**
   * Frontends that are rendered once the kernel has been asked for their schedulers: at a start
   * rendering all of them twice is slow.
   */
  readonly #unrendered = new Map<FrontendKey, AddressFrontend>()
  readonly #slowStartSteps = new SlowStartSteps(this.slowStarts)
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
    const { schedulers } = this.#options
    const isUnknown = frontend !== undefined && schedulers.isUnknown(frontend)
    const scheduler = schedulers.inForce(key, frontend)
    if (isUnknown) this.#unrendered.set(key, frontend)
    else {
      this.#unrendered.delete(key)
      this.#want(key, frontend, scheduler)
    }
    this.staleFlows.suspect(key, frontend?.servicePort)
    if (frontend?.bind === true) {
      this.#toBind.add(key)
      this.virtualAddresses.expect(key)
    } else {
      this.#toBind.delete(key)
      this.virtualAddresses.set(key, false)
    }
  }

  #want(key: FrontendKey, frontend: AddressFrontend | undefined, scheduler: string): void {
    const { virtualServers, slowStarts } = this
    if (frontend === undefined) {
      this.#slowStartSteps.set(key, undefined)
      slowStarts.forget(key)
      this.outliers.forget(key)
      virtualServers.want(key, undefined)
      return
    }
    const full = renderVirtualServer(frontend, scheduler)
    // Before the kernel has it, all real servers are equally new.
    const before = virtualServers.live(key) === undefined ? undefined : virtualServers.desired(key)
    const durationMs = slowStartOf(frontend, scheduler)
    this.#slowStartSteps.set(key, durationMs === undefined ? undefined : ownerOf(frontend))
    const base = slowStarts.render(key, full, before, durationMs, this.#options.now())
    const isJudged = judgesOutliers(frontend, base, this.#options.outlierDetection ?? false)
    virtualServers.want(key, this.outliers.render(key, base, isJudged ? ownerOf(frontend) : undefined))
  }

  /** Real servers of this virtual server got another state in `outliers`. A pass applies it. */
  rejudged(key: FrontendKey): void {
    const server = this.outliers.rendered(key)
    if (server !== undefined) this.virtualServers.want(key, server)
  }

  /** Takes steps of slow starts that are due. Those that are left wait for the next pass. */
  #stepSlowStarts(): void {
    if (this.#slowStartSteps.nextDueMs() === undefined) return
    const { now } = this.#options
    this.#slowStartSteps.take(newBudget(now), now(), (key, server) =>
      this.virtualServers.want(key, this.outliers.withBase(key, server)),
    )
  }

  /** Renders the virtual servers again whose scheduler has turned out to be present. */
  async #askSchedulers(signal: AbortSignal): Promise<void> {
    const { schedulers } = this.#options
    for (const frontend of await schedulers.ask(signal)) {
      const { key } = frontend
      this.#unrendered.delete(key)
      this.#want(key, frontend, schedulers.inForce(key, frontend))
    }
    // Their schedulers are missing.
    for (const [key, frontend] of this.#unrendered) this.#want(key, frontend, schedulers.inForce(key, frontend))
    this.#unrendered.clear()
  }

  async pass(options: DataplanePass): Promise<PassReport> {
    await this.#askSchedulers(options.signal)
    this.#stepSlowStarts()
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
    await this.#askSchedulers(signal)
    for (const key of this.#toBind) this.virtualAddresses.set(key, true)
    this.#toBind.clear()
    await this.#acceptChanging(signal)
    const all = new Reconciler([...this.firewall.plan(), ...this.#ownTables])
    return all.plan({ signal, now: this.#options.now })
  }

  /**
   * This process does not know which endpoints start slowly in the daemon that runs, and which get
   * no connections because they do not answer, so it takes their weights as they are.
   */
  async #acceptChanging(signal: AbortSignal): Promise<void> {
    const [starting, judged] = [new Set(this.#slowStartSteps.keys()), new Set(this.outliers.keys())]
    if (starting.size === 0 && judged.size === 0) return
    await this.virtualServers.read(signal)
    for (const key of new Set([...starting, ...judged])) {
      const [wanted, live] = [this.virtualServers.desired(key), this.virtualServers.live(key)]
      if (wanted === undefined) continue
      const started = starting.has(key) ? acceptStarting(wanted, live) : wanted
      this.virtualServers.want(key, judged.has(key) ? acceptOutliers(started, live) : started)
    }
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
    const { schedulers } = this.#options
    const all = [
      this.#reconciler.nextDueMs(),
      this.drains.nextDueMs(),
      this.#slowStartSteps.nextDueMs(),
      schedulers.nextDueMs(),
      this.firewall.nextDueMs(),
    ]
    const due = all.filter((at) => at !== undefined)
    return due.length === 0 ? undefined : Math.min(...due)
  }
}

function isFaulty(table: ListedTable): boolean {
  return table.health().some(({ wrong }) => wrong)
}

/** The Service of a frontend, as DesiredFrontends names it. */
function ownerOf({ servicePort: { service } }: AddressFrontend): string {
  return `${service.namespace}/${service.name}`
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
