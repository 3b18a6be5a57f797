/**
 * The firewall of one private table of nf_tables for each family: no process, no ipset, no xtables.
 * Sets say which traffic, a few chains that are always there what happens to it. One pass writes
 * all of it, before the virtual servers.
 */
import { NFT_FAMILY, type NftItem, type NftOperation, nftKey } from '../../../nftables/types.ts'
import type { Wanted } from '../../../explain/wanted.ts'
import type { CountedConnection } from '../../../metrics/sources.ts'
import type { AddressFrontend, FrontendKey } from '../../../service/frontends.ts'
import { type Reconciled, reconciled } from '../../../sync/reconciled.ts'
import type { Stage } from '../../../sync/reconciler.ts'
import type { TableIo } from '../../../sync/table.ts'
import { TableSync } from '../../../sync/table-sync.ts'
import type { IpFamily } from '../../../values/protocol.ts'
import type { ModeWatch, PendingPart } from '../../mode.ts'
import { isTableFaulty, tableOfServices } from '../../table-health.ts'
import type {
  AuditTools,
  Firewall,
  FirewallAudit,
  FirewallCheck,
  FirewallNode,
  FirewallOptions,
  FirewallSources,
} from '../firewall.ts'
import { FIREWALL_WAIT_MS } from '../firewall-waits.ts'
import { Admission } from './admission.ts'
import { elementsOf, hairpinElements, wantedElements } from './elements.ts'
import { FailedServices } from './failed-services.ts'
import { HandOver } from './hand-over.ts'
import { observed } from './observed-table.ts'
import { PlacedLayout } from './placed-layout.ts'
import { PlacedRanges } from './placed-ranges.ts'
import { sizesOf } from './elements.ts'
import { TableDoubts } from './table-doubts.ts'

/** The kernel as this firewall uses it. */
export interface NftKernel {
  readonly families: readonly IpFamily[]
  /** Whether the kernel lets a table belong to this process. */
  readonly mayOwn: boolean
  readonly table: TableIo<NftItem, NftOperation>
  /** Reads announcements until closed. */
  watch(listener: TableListener): { close(): void }
  /** Compares what the kernel has with the mirror; a round over everything. */
  audit(
    options: AuditTools & { readonly mirror: TableSync<NftItem, NftOperation>; readonly signal: AbortSignal },
  ): Promise<void>
  connections(): readonly CountedConnection[]
  close(): void
}

export interface TableListener {
  /** The socket of this port id, which is not ours, changed a table of ours, or (`isLost`) removed it. */
  readonly onChanged: (family: IpFamily, isLost: boolean, portId: number) => void
  /** Announcements may have been lost. */
  readonly onLost: () => void
  readonly onError: (error: unknown) => void
}

export interface NftablesFirewallOptions extends Omit<FirewallOptions, 'serves'> {
  readonly kernel: NftKernel
}

export class NftablesFirewall implements Firewall {
  readonly parts: readonly PendingPart[] = []
  readonly #options: NftablesFirewallOptions
  readonly #sync: TableSync<NftItem, NftOperation>
  readonly #layout: PlacedLayout
  readonly #elements = wantedElements()
  readonly #ranges: PlacedRanges
  readonly #admission: Admission
  readonly #failed: FailedServices
  readonly #doubts: TableDoubts
  readonly #hand: HandOver
  readonly #abort = new AbortController()

  constructor(options: NftablesFirewallOptions) {
    this.#options = options
    const { kernel, settings, problems, log, now, listener } = options
    const { families } = kernel
    this.#sync = new TableSync(
      observed(kernel.table, (family, table) => this.#layout.seen(family, table)),
      {
        onExamined: (key) => this.#examined(key),
        mayAdd: (key, item) => this.#layout.mayAdd(key, item) && this.#ranges.mayAdd(item),
        mayRemove: (key) => this.#layout.mayRemove(key),
      },
    )
    this.#layout = new PlacedLayout({ sync: this.#sync, settings, families, mayOwn: kernel.mayOwn })
    this.#ranges = new PlacedRanges(this.#sync)
    this.#admission = new Admission({
      now,
      isThere: (family) => this.#layout.isThere(family),
      areRangesThere: (key) => this.#ranges.areThere(key),
      onOverdue: (ipFamily) => {
        const waited = `${FIREWALL_WAIT_MS / 1000}s`
        log.warn('Rules are still missing; adding virtual servers without them', { ipFamily, waited })
      },
    })
    this.#failed = new FailedServices(this.#sync, problems)
    this.#doubts = new TableDoubts({
      sync: this.#sync,
      keysOf: (family) => this.#layout.keys(family),
      now,
      rebuild: (family) => this.#rebuild(family),
      onDoubt: () => listener.postponedReady(),
    })
    this.#hand = new HandOver({
      ...options,
      table: kernel.table,
      onFree: () => {
        // What was refused meanwhile need not wait.
        this.#sync.takeRetries(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY)
        this.#sync.forget()
        listener.postponedReady()
      },
    })
  }

  begin(): FirewallCheck {
    return {}
  }

  /** Nothing of this is optional: a kernel that lacks some of it is refused when it is opened. */
  lacks(): void {}

  frontend(key: FrontendKey, frontend: AddressFrontend | undefined): void {
    const isServed = frontend !== undefined && this.#options.kernel.families.includes(frontend.servicePort.family)
    const served = isServed ? frontend : undefined
    // Of a Service that is removed the elements are removed first, in the reverse order.
    this.#ranges.frontend(key, served)
    const elements = served === undefined ? [] : elementsOf(served)
    const hairpins = served && hairpinElements(served, this.#options.nodeName)
    for (const change of this.#elements.set(key, elements, hairpins)) this.#sync.want(change.key, change.entry)
  }

  node({ podCidrs }: Partial<FirewallNode>): void {
    if (podCidrs !== undefined) this.#layout.podCidrs(podCidrs)
  }

  stages(onMayAdd: () => void): readonly Stage[] {
    const tables = reconciled(this.#sync)
    return [
      () => {
        this.#layout.passBegins()
        this.#hand.await(this.#layout.taken)
      },
      tables,
      () => this.#layout.tried(),
      // What is in no set is refused from now on.
      tables,
      () => {
        this.#doubts.written()
        this.#failed.report(this.#layout.taken)
        if (this.#admission.takeChanged()) onMayAdd()
      },
    ]
  }

  mayAdd(key: FrontendKey, family: IpFamily): boolean {
    return this.#admission.mayAdd(key, family)
  }

  passed(servesAll: boolean): boolean {
    return servesAll && this.#layout.takeAll()
  }

  nextDueMs(): number | undefined {
    return this.#admission.nextDueMs()
  }

  get isComplete(): boolean {
    const { families } = this.#options.kernel
    const hasLayout = families.every((family) => this.#layout.isThere(family) && !this.#layout.isFailing(family))
    return hasLayout && !isTableFaulty(this.#sync)
  }

  /** The tables are ours alone, so a pass that may remove knows what to remove. */
  allowRemovals(): void {}

  plan(): readonly Reconciled[] {
    this.#layout.renderForPlan()
    return [reconciled(this.#sync)]
  }

  *wanted(neededBy: FrontendKey): Generator<Wanted, void, void> {
    for (const item of this.#elements.of(neededBy)) yield { table: 'nftables', key: nftKey(item), neededBy, item }
    const ranges = this.#ranges.of(neededBy)
    if (ranges !== undefined) yield { table: 'nftables', key: ranges.elementKey, neededBy, item: ranges.element }
  }

  get sources(): FirewallSources {
    const { kernel } = this.#options
    const { families } = kernel
    const services = tableOfServices(this.#sync, families)
    const health = () => [
      ...services.health(),
      ...families.map((family) => ({
        what: `table ${family}`,
        families: [family],
        wrong: this.#layout.isFailing(family),
      })),
    ]
    return {
      tables: [{ counted: this.#sync, health }],
      connections: () => kernel.connections(),
      sizes: () => sizesOf(this.#sync),
    }
  }

  watch(onForeignWrite: ModeWatch['onForeignWrite']): { close(): void } {
    const { kernel, log } = this.#options
    const watched = kernel.watch({
      onChanged: (family, isLost, portId) => {
        onForeignWrite(portId)
        this.#doubts.changed(family, isLost)
      },
      onLost: () => this.#doubts.missed(),
      onError: (error) => log.warn('Lost announcements of changed rules; reading all rules again', { error }),
    })
    return {
      close: () => {
        watched.close()
        this.#doubts.close()
      },
    }
  }

  /** Announcements may be lost. */
  audits(tools: AuditTools): readonly FirewallAudit[] {
    const { kernel } = this.#options
    return [{ name: 'nftables', round: (signal) => kernel.audit({ ...tools, mirror: this.#sync, signal }) }]
  }

  async close(): Promise<void> {
    this.#abort.abort()
    this.#doubts.close()
    this.#hand.close()
    this.#options.kernel.close()
  }

  /**
   * In as few transactions as the io makes of it, unless a pass has written the table since. What is
   * refused of it is left to a pass, which reads everything.
   */
  async #rebuild(family: IpFamily): Promise<boolean> {
    const ops: NftOperation[] = []
    for (const key of this.#sync.desiredKeys()) {
      const item = this.#sync.desired(key)
      if (item?.family === family) ops.push({ kind: 'add', item })
      if (ops.length > AT_ONCE) return false
    }
    const { table } = this.#options.kernel
    const { signal } = this.#abort
    try {
      if ((await table.list([NFT_FAMILY[family]], signal)).size > 0) return false
      await table.apply(ops, signal)
      return true
    } catch {
      // Closed, or it cannot be read or written now.
      return false
    }
  }

  #examined(key: string): void {
    const isWhole = this.#layout.examined(key)
    if (this.#ranges.examined(key) || isWhole) this.#admission.changed()
  }
}

/** More items are left to a pass: so many take 10 ms of processor time, and others get their turn meanwhile. */
const AT_ONCE = 5000
