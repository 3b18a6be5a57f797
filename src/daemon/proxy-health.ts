/**
 * How the proxy fares, from the moment the process starts: what passes, rules, audits and the Node say of it.
 * It is asked before there is a kernel or a Node; then the Node is not known, and the first pass is due.
 */
import type { TableHealth } from '../modes/table-health.ts'
import type { HealthState } from '../serve/health-answers.ts'
import { SyncHealth } from '../serve/sync-health.ts'
import type { ObjectChange } from '../service/objects.ts'
import type { PassReport } from '../sync/reconciler.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { Clock } from '../values/clock.ts'

export interface ProxyHealthOptions {
  readonly nodeName: string
  /** False where nobody makes the Node object: without one the node is eligible. Default true. */
  readonly needsNode?: boolean
  /** Families that the kernel allows: those that are served, until that is known better. */
  readonly families: readonly IpFamily[]
  /** KubeProxyConfiguration's, as it is now; twice as long may something be wrong. */
  readonly syncPeriodMs: () => number
  readonly now: Clock
}

/** What is looked at besides what passes say. */
export interface FollowedKernel {
  /** Families that are served; nothing is said of others. */
  readonly families: readonly IpFamily[]
  /** Tables as they stand now. */
  readonly tables: () => Iterable<TableHealth>
  /** The loops that write rules, one a family. */
  readonly rules: readonly { readonly family: IpFamily; readonly isPending: boolean }[]
}

/** The cluster autoscaler sets it on a Node that it is about to delete: load balancers have to stop using it before (KEP-3836). */
const TO_BE_DELETED = 'ToBeDeletedByClusterAutoscaler'

export class ProxyHealth {
  readonly #options: ProxyHealthOptions
  readonly #sync: SyncHealth
  #nodeEligible: boolean
  #kernel: FollowedKernel | undefined

  constructor(options: ProxyHealthOptions) {
    this.#options = options
    const { syncPeriodMs, now, needsNode = true } = options
    this.#nodeEligible = !needsNode
    const families = (): readonly IpFamily[] => this.#kernel?.families ?? options.families
    this.#sync = new SyncHealth({ families, graceMs: () => 2 * syncPeriodMs(), now, clock: Date.now })
    this.#sync.begin('start')
  }

  /** Takes the Node in, if it is among these. One that is deleted stays what it was last, as in kube-proxy. */
  apply(changes: readonly ObjectChange[]): void {
    const { nodeName, needsNode = true } = this.#options
    for (const { kind, key, value } of changes) {
      if (kind !== 'nodes' || key !== nodeName) continue
      if (value !== undefined) this.#nodeEligible = !value.deleting && !value.taintKeys.includes(TO_BE_DELETED)
      else if (!needsNode) this.#nodeEligible = true
    }
  }

  follow(kernel: FollowedKernel): void {
    this.#kernel = kernel
  }

  /** A pass begins; it has to end. */
  passBegins(): void {
    this.#sync.begin('pass')
  }

  /** A pass is over: over the tables of all families, or over the rules of one. */
  passed(what: 'tables' | IpFamily, { unreadable }: PassReport): void {
    if (what === 'tables') {
      this.#sync.end('start')
      this.#sync.end('pass')
    }
    const isUnreadable = unreadable.length > 0
    if (what === 'tables') this.#sync.set('reading tables', isUnreadable)
    else this.#sync.set(`reading rules ${what}`, isUnreadable, [what])
    this.#lookAtRules()
    for (const table of this.#kernel?.tables() ?? []) this.#sync.set(table.what, table.wrong, table.families)
    this.#sync.markUpToDate()
  }

  /** An audit has read the kernel. */
  audited(): void {
    this.#sync.markUpToDate()
  }

  get isHealthy(): boolean {
    this.#lookAtRules()
    return this.#sync.isHealthy
  }

  get state(): HealthState {
    this.#lookAtRules()
    return { nodeEligible: this.#nodeEligible, families: this.#sync.families }
  }

  /** A process that hangs tells nobody, so this is looked at whenever somebody asks. */
  #lookAtRules(): void {
    for (const { family, isPending } of this.#kernel?.rules ?? [])
      this.#sync.set(`rules ${family}`, isPending, [family])
  }
}
