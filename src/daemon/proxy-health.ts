/**
 * The health of the proxy from the moment the process starts, as passes, rules, audits and the Node
 * show it. Probes may ask before the kernel is open and the Node is known; then the Node is not
 * eligible, and the first pass is due.
 */
import type { PendingPart } from '../modes/mode.ts'
import type { TableHealth } from '../modes/table-health.ts'
import type { HealthState } from '../serve/health-answers.ts'
import { SyncHealth } from '../serve/sync-health.ts'
import type { ObjectChange } from '../service/objects.ts'
import { type Part, TABLES } from '../sync/part.ts'
import type { PassReport } from '../sync/pass.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { Clock } from '../values/clock.ts'

export interface ProxyHealthOptions {
  readonly nodeName: string
  /** False for a source that may have no Node object: without one the node is eligible. Default true. */
  readonly needsNode?: boolean
  /** Families that the kernel allows. Until the mode is open they are used in place of those that are served. */
  readonly families: readonly IpFamily[]
  /** The syncPeriod in force; a failure counts when it lasts twice as long. */
  readonly syncPeriodMs: () => number
  readonly now: Clock
}

/** What health reads from the open mode. */
export interface FollowedKernel {
  /** Families that are served; health ignores all others. */
  readonly families: readonly IpFamily[]
  /** The tables in their present state. */
  readonly tables: () => Iterable<TableHealth>
  /** What is written beside the passes. */
  readonly parts: readonly PendingPart[]
}

/**
 * Taint of a Node that the cluster autoscaler is about to delete: load balancers have to stop using
 * the node first (KEP-3836).
 */
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

  /**
   * Takes in the Node of this proxy, if it is among the changes. A deleted Node stays as eligible
   * as it was, as in kube-proxy.
   */
  apply(changes: readonly ObjectChange[]): void {
    const { nodeName, needsNode = true } = this.#options
    for (const { kind, key, value } of changes) {
      if (kind !== 'nodes' || key !== nodeName) continue
      if (value !== undefined) this.#nodeEligible = !value.deleting && !value.taintKeys.includes(TO_BE_DELETED)
      else if (!needsNode) this.#nodeEligible = true
    }
  }

  /**
   * A proxy starts on this open kernel, and its first pass is due. What troubled another proxy
   * before it does not count.
   */
  follow(kernel: FollowedKernel): void {
    this.#kernel = kernel
    this.#sync.reset()
    this.#sync.begin('start')
  }

  /** A pass begins, and has to end in time. */
  passBegins(): void {
    this.#sync.begin('pass')
  }

  /** A pass over a part has ended. */
  passed({ name, families }: Part, { unreadable }: PassReport): void {
    const isTables = name === TABLES.name
    if (isTables) {
      this.#sync.end('start')
      this.#sync.end('pass')
    }
    const isUnreadable = unreadable.length > 0
    if (isTables) this.#sync.set('reading tables', isUnreadable)
    else this.#sync.set(`reading rules ${name}`, isUnreadable, families)
    this.#readRules()
    for (const table of this.#kernel?.tables() ?? []) this.#sync.set(table.what, table.wrong, table.families)
    this.#sync.markUpToDate()
  }

  /** An audit has read the kernel. */
  audited(): void {
    this.#sync.markUpToDate()
  }

  get isHealthy(): boolean {
    this.#readRules()
    return this.#sync.isHealthy
  }

  get state(): HealthState {
    this.#readRules()
    return { nodeEligible: this.#nodeEligible, families: this.#sync.families }
  }

  /**
   * What is wrong or late, also for a time that does not count yet: `pass` (it has not ended),
   * `rules IPv4`, `reading tables`.
   */
  get troubles(): SyncHealth['troubles'] {
    this.#readRules()
    return this.#sync.troubles
  }

  /** A process that hangs reports nothing, so each probe reads this. */
  #readRules(): void {
    for (const { name, families, isPending } of this.#kernel?.parts ?? [])
      this.#sync.set(`rules ${name}`, isPending, families)
  }
}
