/**
 * ipvs mode: joins frontends to the tables of ipvs mode and those to the reconciler.
 * What could break: the order of the tables. Virtual servers come before the addresses that bring them traffic, and
 * addresses go before the virtual servers behind them.
 */
import {
  type AddressOperation,
  type BoundAddress,
  DEVICE_KIND,
  type Device,
  type DeviceOperation,
  hostAddress,
} from '../../ipvs/address-diff.ts'
import type { FlowTable } from '../../conntrack/connection.ts'
import { StaleFlows, type StaleFlowsOptions } from '../../conntrack/stale-flows.ts'
import { drainingRealServers, sameVirtualServer } from '../../ipvs/diff.ts'
import { Drains } from '../../ipvs/drains.ts'
import type { VirtualServer, VirtualServerOperation } from '../../ipvs/types.ts'
import { renderVirtualServer } from '../../ipvs/render.ts'
import { WantedAddresses } from '../../ipvs/addresses.ts'
import { type Frontend, type FrontendKey, hasAddress } from '../../service/frontends.ts'
import type { Dataplane } from '../../sync/loop.ts'
import { type PassReport, type Reconciled, Reconciler, reconciled } from '../../sync/reconciler.ts'
import { TableSync } from '../../sync/table-sync.ts'
import { familyOf } from '../../values/address.ts'
import type { Log } from '../../values/log.ts'
import type { IpFamily } from '../../values/protocol.ts'
import type { SetsAndRules } from './sets-and-rules.ts'
import type { IpvsStates, IpvsTables } from './tables.ts'
import type { Clock } from '../../values/clock.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'

export interface IpvsDataplaneOptions {
  readonly tables: Pick<IpvsTables, 'virtualServers' | 'device' | 'addresses'>
  /** Sets and rules around the virtual servers. */
  readonly setsAndRules: SetsAndRules
  readonly conntrack: FlowTable
  readonly scheduler: string
  /** Families the kernel has; frontends of others are left out. */
  readonly families: readonly IpFamily[]
  /** How long connections may keep a drain alive, in milliseconds; undefined = for ever. */
  readonly drainDeadlineMs: number | undefined
  readonly now: Clock
  readonly onFlowsRemoved?: StaleFlowsOptions['onRemoved']
  readonly log: Log
}

/** Virtual servers with draining real servers that one pass looks at, a few milliseconds; the rest wait for the next pass. */
const LOOKS_PER_PASS = 64
/** Addresses in one line of the log. */
const LOGGED_ADDRESSES = 100

export class IpvsDataplane implements Dataplane {
  readonly virtualServers: TableSync<VirtualServer, VirtualServerOperation>
  readonly device: TableSync<Device, DeviceOperation>
  readonly addresses: TableSync<BoundAddress, AddressOperation>
  readonly drains: Drains
  readonly staleFlows: StaleFlows
  readonly #wanted = new WantedAddresses()
  /** Frontends whose address is to be bound once their virtual server is there. */
  readonly #toBind = new Set<FrontendKey>()
  readonly #options: IpvsDataplaneOptions
  readonly #reconciler: Reconciler

  constructor(options: IpvsDataplaneOptions) {
    this.#options = options
    const { tables, setsAndRules, conntrack } = options
    this.virtualServers = new TableSync(tables.virtualServers, {
      onExamined: (key) => this.#examined(key),
      // Rules may be written in the middle of a pass. What is left of it waits for the next one, with what was asked about
      // before: otherwise the last Services would overtake the API server's.
      mayAdd: (key, { family }) => !setsAndRules.hasChanged && setsAndRules.mayCome(key, family),
    })
    this.device = new TableSync(tables.device)
    this.addresses = new TableSync(tables.addresses)
    tables.addresses.onUnbound = (addresses) => this.#logUnbound(addresses)
    this.drains = new Drains(options.drainDeadlineMs)
    this.staleFlows = new StaleFlows({
      conntrack,
      isSettled: (key) => this.#isSettled(key),
      onRemoved: options.onFlowsRemoved,
    })
    this.#reconciler = new Reconciler([
      reconciled(setsAndRules.sets),
      // Rules name sets, whatever is in them: their processes run while entries are written.
      () => setsAndRules.startRules(),
      reconciled(setsAndRules.entries),
      () => this.#releaseWaiting(),
      this.#ownTables,
    ])
  }

  /** In the words and the form of kube-proxy. */
  #logUnbound(unbound: readonly string[]): void {
    for (const ipFamily of this.#options.families) {
      const all = unbound.filter((address) => familyOf(address) === ipFamily)
      const addresses = Object.fromEntries(all.slice(0, LOGGED_ADDRESSES).map((address) => [address, {}]))
      const more = all.length > LOGGED_ADDRESSES ? { more: all.length - LOGGED_ADDRESSES } : {}
      if (all.length > 0)
        this.#options.log.verbose(2, 'Removing addresses', { ipFamily, interface: SERVICE_DEVICE, addresses, ...more })
    }
  }

  get setsAndRules(): SetsAndRules {
    return this.#options.setsAndRules
  }

  /** Every table of the mode. */
  get states(): IpvsStates {
    const { virtualServers, device, addresses } = this
    const { sets, entries, loops } = this.setsAndRules
    return { sets, entries, chains: loops.all, virtualServers, device, addresses }
  }

  /** From now on the device, the sets and the rules are wanted. Without this call the desired state is empty (cleanup). */
  wantFixtures(): void {
    this.setsAndRules.want()
    this.device.want(SERVICE_DEVICE, { kind: DEVICE_KIND })
  }

  frontend(key: FrontendKey, wanted: Frontend | undefined): void {
    const isServed =
      wanted !== undefined && hasAddress(wanted) && this.#options.families.includes(wanted.servicePort.family)
    const frontend = isServed ? wanted : undefined
    this.setsAndRules.frontend(key, frontend)
    this.virtualServers.want(
      key,
      frontend === undefined ? undefined : renderVirtualServer(frontend, this.#options.scheduler),
    )
    this.staleFlows.suspect(key, frontend?.servicePort)
    if (frontend?.bind === true) this.#toBind.add(key)
    else {
      this.#toBind.delete(key)
      this.#bind(key, false)
    }
  }

  async pass(options: { readonly signal: AbortSignal; readonly mayRemove: boolean }): Promise<PassReport> {
    const idle = await this.#lookAtDrains(options.signal)
    const report = await this.#reconciler.pass({ ...options, now: this.#options.now, idle })
    // Sets may have become empty.
    this.setsAndRules.startRules()
    return report
  }

  /** What a pass would do, as commands. */
  preview(options: { readonly signal: AbortSignal; readonly mayRemove: boolean }): Promise<string[]> {
    this.setsAndRules.renderRules()
    for (const key of this.#toBind) this.#bind(key, true)
    this.#toBind.clear()
    const inOneGo = new Reconciler([...this.setsAndRules.tables, ...this.#ownTables])
    return inOneGo.preview({ ...options, now: this.#options.now })
  }

  get #ownTables(): readonly Reconciled[] {
    return [reconciled(this.virtualServers), reconciled(this.device), reconciled(this.addresses)]
  }

  #releaseWaiting(): void {
    if (this.setsAndRules.takeChanged()) this.virtualServers.release()
  }

  #examined(key: FrontendKey): void {
    this.#observeDrains(key)
    const live = this.virtualServers.live(key)
    // Traffic comes with the address, so the virtual server comes first.
    if (live !== undefined && this.#toBind.delete(key)) this.#bind(key, true)
    // What an earlier process left, and is gone now, has flows too.
    if (live === undefined && this.virtualServers.desired(key) === undefined) this.staleFlows.suspect(key, undefined)
  }

  /** Whether the kernel has what is wanted of this frontend. */
  #isSettled(key: FrontendKey): boolean {
    const [wanted, live] = [this.virtualServers.desired(key), this.virtualServers.live(key)]
    return wanted === undefined || live === undefined ? wanted === live : sameVirtualServer(wanted, live)
  }

  #bind(key: FrontendKey, bind: boolean): void {
    const change = this.#wanted.set(key, bind)
    if (change !== undefined)
      this.addresses.want(change.address, change.wanted ? hostAddress(change.address) : undefined)
  }

  nextDueMs(): number | undefined {
    const due = [this.#reconciler.nextDueMs(), this.drains.nextDueMs()].filter((at) => at !== undefined)
    return due.length === 0 ? undefined : Math.min(...due)
  }

  #observeDrains(key: string): void {
    const draining = drainingRealServers(this.virtualServers.desired(key), this.virtualServers.live(key))
    // Asking for the time is not free everywhere, and almost nothing drains.
    if (draining.length === 0) this.drains.forget(key)
    else this.drains.observe(key, draining, this.#options.now())
  }

  /** Real servers whose drain is over, by virtual server. A look that fails is made again later. */
  async #lookAtDrains(signal: AbortSignal): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
    const idle = new Map<string, ReadonlySet<string>>()
    for (const key of this.drains.takeDue(this.#options.now(), LOOKS_PER_PASS)) {
      try {
        const over = this.drains.finished(
          key,
          await this.#options.tables.virtualServers.connections(key, signal),
          this.#options.now(),
        )
        if (over.size === 0) continue
        idle.set(key, over)
        this.virtualServers.touch(key)
      } catch (error) {
        signal.throwIfAborted()
        this.#options.log.warn('Cannot count the connections of draining real servers', { virtualServer: key, error })
      }
    }
    return idle
  }
}
