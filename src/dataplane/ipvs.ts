/**
 * ipvs mode: joins frontends to the tables of ipvs mode and those to the reconciler.
 * What could break: the order of the tables. Virtual servers come before the addresses that bring them traffic, and
 * addresses go before the virtual servers behind them.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  type AddressOperation,
  type BoundAddress,
  DEVICE_KIND,
  type Device,
  type DeviceOperation,
  hostAddress,
  SERVICE_DEVICE,
} from '../ipvs/address-diff.ts'
import type { AddressTable } from '../ipvs/addresses.ts'
import type { DeviceTable } from '../ipvs/device.ts'
import { drainingRealServers } from '../ipvs/diff.ts'
import { Drains } from '../ipvs/drains.ts'
import type { VirtualServerOperation } from '../ipvs/operation.ts'
import { renderVirtualServer } from '../ipvs/render.ts'
import type { VirtualServerTable } from '../ipvs/table.ts'
import type { VirtualServer } from '../ipvs/types.ts'
import { WantedAddresses } from '../ipvs/wanted-addresses.ts'
import type { Frontend, FrontendKey } from '../service/frontends.ts'
import type { Dataplane } from '../sync/loop.ts'
import { type PassReport, Reconciler, reconciled } from '../sync/reconciler.ts'
import { TableSync } from '../sync/table-sync.ts'
import type { Log } from '../values/log.ts'
import type { IpFamily } from '../values/protocol.ts'

export interface IpvsTables {
  readonly virtualServers: VirtualServerTable
  readonly device: DeviceTable
  readonly addresses: AddressTable
}

export interface IpvsDataplaneOptions {
  readonly tables: IpvsTables
  readonly scheduler: string
  /** Families the kernel has; frontends of others are left out. */
  readonly families: readonly IpFamily[]
  /** How long connections may keep a drain alive, in milliseconds; undefined = for ever. */
  readonly drainDeadlineMs: number | undefined
  /** Milliseconds on a clock that never goes back. */
  readonly now: () => number
  readonly log: Log
}

/** Looks at draining real servers between two turns of the event loop: a few milliseconds. */
const LOOKS_PER_TURN = 64

export class IpvsDataplane implements Dataplane {
  readonly virtualServers: TableSync<VirtualServer, VirtualServerOperation>
  readonly device: TableSync<Device, DeviceOperation>
  readonly addresses: TableSync<BoundAddress, AddressOperation>
  readonly drains: Drains
  readonly #wanted = new WantedAddresses()
  readonly #options: IpvsDataplaneOptions
  readonly #reconciler: Reconciler

  constructor(options: IpvsDataplaneOptions) {
    this.#options = options
    const { tables } = options
    this.virtualServers = new TableSync(tables.virtualServers, (key) => this.#observeDrains(key))
    this.device = new TableSync(tables.device)
    this.addresses = new TableSync(tables.addresses)
    this.drains = new Drains(options.drainDeadlineMs)
    this.#reconciler = new Reconciler([
      reconciled(this.virtualServers),
      reconciled(this.device),
      reconciled(this.addresses),
    ])
  }

  /** From now on the device is wanted. Without this call the desired state is empty (cleanup). */
  wantDevice(): void {
    this.device.want(SERVICE_DEVICE, { kind: DEVICE_KIND })
  }

  frontend(key: FrontendKey, wanted: Frontend | undefined): void {
    const frontend = wanted !== undefined && this.#options.families.includes(wanted.family) ? wanted : undefined
    this.virtualServers.want(
      key,
      frontend === undefined ? undefined : renderVirtualServer(frontend, this.#options.scheduler),
    )
    const change = this.#wanted.set(key, frontend?.bind ?? false)
    if (change !== undefined)
      this.addresses.want(change.address, change.wanted ? hostAddress(change.address) : undefined)
  }

  async pass(options: { readonly signal: AbortSignal; readonly mayRemove: boolean }): Promise<PassReport> {
    const idle = await this.#lookAtDrains(options.signal)
    return this.#reconciler.pass({ ...options, now: this.#options.now, idle })
  }

  /** What a pass would do, as commands. */
  preview(options: { readonly signal: AbortSignal; readonly mayRemove: boolean }): Promise<string[]> {
    return this.#reconciler.preview({ ...options, now: this.#options.now })
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
    let looks = 0
    for (const key of this.drains.takeDue(this.#options.now())) {
      if (++looks % LOOKS_PER_TURN === 0) await nextTurn()
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
