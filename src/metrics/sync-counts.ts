/**
 * Counts what the loop does, as kube-proxy counts its syncs: changes, passes, and the time until a
 * change is in the kernel. `changed` and `frontend` are called for every change, so their cost is
 * constant and they store nothing but frontends without a local endpoint.
 * @impure
 */
import { type Part, TABLES } from '../sync/part.ts'
import type { Frontend, FrontendKey } from '../service/frontends.ts'
import type { ObjectChange } from '../service/objects.ts'
import type { AppliedObjects } from '../sync/applied-objects.ts'
import type { PassReport } from '../sync/pass.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import { Histogram, PROGRAMMING_SECONDS, SYNC_SECONDS } from './histogram.ts'

/** Maximum number of trigger times in memory while the kernel cannot be read. */
const MAX_TRIGGERS = 10_000

/** The counts of one IP family. Times are wall clock in milliseconds since the epoch; 0 means never. */
class IpFamilyCounts {
  readonly syncSeconds = new Histogram(SYNC_SECONDS)
  readonly programmingSeconds = new Histogram(PROGRAMMING_SECONDS)
  readonly conntrackSeconds = new Histogram(SYNC_SECONDS)
  deletedFlows = 0
  restoreFailures = 0
  lastQueuedMs = 0
  lastSyncedMs = 0
  /** The last attempt to write its rules failed. */
  rulesFail = false
  /** Trigger times of changes that wait for a pass, and of those that the current pass applies. */
  waitingTriggers: number[] = []
  passTriggers: number[] = []

  /** Counts the changes of the current pass as programmed in the kernel. */
  programmed(nowMs: number): void {
    for (const triggeredAtMs of this.passTriggers)
      this.programmingSeconds.observe(Math.max(0, nowMs - triggeredAtMs) / 1000)
    this.passTriggers.length = 0
  }
}

export interface SyncCountsOptions {
  /** The served IP families. */
  readonly families: readonly IpFamily[]
  /** Wall clock, in milliseconds since the epoch. */
  readonly wallMs: () => number
  /** Only iptables mode, where writing rules is the sync: whether rules of this IP family still have to be written. */
  readonly rulesPending?: ((family: IpFamily) => boolean) | undefined
}

export class SyncCounts {
  readonly families: readonly IpFamily[]
  readonly byFamily: Readonly<Record<IpFamily, IpFamilyCounts>> = {
    IPv4: new IpFamilyCounts(),
    IPv6: new IpFamilyCounts(),
  }
  serviceChanges = 0
  servicesPending = 0
  sliceChanges = 0
  slicesPending = 0
  /** Passes over the tables, and over the rules, that left something unapplied. */
  tableFailures = 0
  ruleFailures = 0
  readonly #wallMs: () => number
  readonly #rulesPending: SyncCountsOptions['rulesPending']
  readonly #startMs: number
  /** Frontends of Services with a traffic policy Local that have endpoints, but none on this node. */
  readonly #withoutLocal = new Map<FrontendKey, Frontend>()
  #touchedIPv4 = false
  #touchedIPv6 = false
  #tablesFail = false

  constructor({ families, wallMs, rulesPending }: SyncCountsOptions) {
    this.families = families
    this.#wallMs = wallMs
    this.#rulesPending = rulesPending
    this.#startMs = wallMs()
  }

  /**
   * Counts changes before the loop applies them. @param known slices before these changes: if the
   * trigger time of a slice stays the same, the change had another cause (kube-proxy compares the
   * endpoints)
   */
  changed(changes: readonly ObjectChange[], known: Pick<AppliedObjects, 'slice'>): void {
    const nowMs = this.#wallMs()
    for (const change of changes) {
      if (change.kind === 'nodes') continue
      if (change.kind === 'services') {
        this.serviceChanges++
        this.servicesPending++
      } else {
        this.sliceChanges++
        this.slicesPending++
        // kube-proxy's rule: triggers before its start do not count, and a deleted slice has no
        // trigger time of its own.
        const triggeredAtMs = change.value?.triggeredAtMs ?? 0
        if (triggeredAtMs > this.#startMs && change.value !== undefined) {
          const { waitingTriggers } = this.byFamily[change.value.family]
          if (known.slice(change.key)?.triggeredAtMs !== triggeredAtMs && waitingTriggers.length < MAX_TRIGGERS)
            waitingTriggers.push(triggeredAtMs)
        }
      }
      for (const family of IP_FAMILIES) if (concerns(change, family)) this.byFamily[family].lastQueuedMs = nowMs
    }
  }

  /** Called when the frontend that owns `key` has changed; undefined if no Service claims it any more. */
  frontend(key: FrontendKey, frontend: Frontend | undefined): void {
    if (key.startsWith('[')) this.#touchedIPv6 = true
    else this.#touchedIPv4 = true
    if (frontend !== undefined && this.#isWithoutLocal(frontend)) this.#withoutLocal.set(key, frontend)
    else if (this.#withoutLocal.size > 0) this.#withoutLocal.delete(key)
  }

  /** Called when the desired state contains all changes so far, before the pass that applies them. */
  beginPass(): void {
    this.servicesPending = 0
    this.slicesPending = 0
    for (const family of IP_FAMILIES) {
      const counts = this.byFamily[family]
      if (counts.waitingTriggers.length === 0) continue
      if (counts.passTriggers.length === 0) {
        ;[counts.waitingTriggers, counts.passTriggers] = [counts.passTriggers, counts.waitingTriggers]
      } else {
        counts.passTriggers = counts.passTriggers.concat(counts.waitingTriggers).slice(-MAX_TRIGGERS)
        counts.waitingTriggers.length = 0
      }
    }
  }

  /** Counts a finished pass over the tables, or over the rules of IP families. */
  passed({ name, families }: Part, report: PassReport, durationMs: number): void {
    if (name !== TABLES.name) for (const family of families) this.#rulesPassed(family, report, durationMs)
    else if (this.#rulesPending === undefined) this.#tablesPassed(report, durationMs)
    else this.#renderedRules(this.#rulesPending)
  }

  /**
   * Iptables mode: a pass over the tables only renders rules. Without pending rules an IP family is
   * programmed already.
   */
  #renderedRules(rulesPending: (family: IpFamily) => boolean): void {
    const nowMs = this.#wallMs()
    for (const family of this.families) if (!rulesPending(family)) this.byFamily[family].programmed(nowMs)
  }

  /** Counts a sync of the IP families whose frontends changed, or of both if none did. */
  #tablesPassed(report: PassReport, durationMs: number): void {
    const nowMs = this.#wallMs()
    const both = this.#touchedIPv4 === this.#touchedIPv6
    this.#tablesFail = report.unreadable.length > 0
    if (this.#tablesFail || report.failures.length > 0) this.tableFailures++
    for (const family of this.families) {
      const counts = this.byFamily[family]
      if (both || (family === 'IPv4' ? this.#touchedIPv4 : this.#touchedIPv6))
        counts.syncSeconds.observe(durationMs / 1000)
      // After a failed read the changes stay unprogrammed until a later pass.
      if (this.#tablesFail) continue
      if (!counts.rulesFail) counts.lastSyncedMs = nowMs
      counts.programmed(nowMs)
    }
    this.#touchedIPv4 = false
    this.#touchedIPv6 = false
  }

  /** A pass that only read the rules is no sync. */
  #rulesPassed(family: IpFamily, report: PassReport, durationMs: number): void {
    const counts = this.byFamily[family]
    const failed = report.failures.length > 0
    counts.rulesFail = failed || report.unreadable.length > 0
    if (counts.rulesFail) this.ruleFailures++
    if (failed) counts.restoreFailures++
    if (failed || report.applied > 0) counts.syncSeconds.observe(durationMs / 1000)
    if (counts.rulesFail || this.#tablesFail) return
    counts.lastSyncedMs = this.#wallMs()
    if (this.#rulesPending?.(family) === false) counts.programmed(counts.lastSyncedMs)
  }

  /**
   * Sets the time of the last sync after an audit found a part of the kernel in its desired state.
   * kube-proxy syncs everything once a period, and alerts on the time of its last sync must not
   * fire because there was nothing to do.
   */
  markUpToDate(): void {
    if (this.#tablesFail) return
    const nowMs = this.#wallMs()
    for (const family of this.families) {
      const counts = this.byFamily[family]
      if (counts.lastSyncedMs > 0 && !counts.rulesFail) counts.lastSyncedMs = nowMs
    }
  }

  /** Counts one removal of stale flows of an IP family. */
  flowsRemoved(family: IpFamily, deleted: number, durationMs: number): void {
    this.byFamily[family].deletedFlows += deleted
    this.byFamily[family].conntrackSeconds.observe(durationMs / 1000)
  }

  /**
   * Number of Services (ipvs mode) or Service ports (iptables mode) whose traffic policy is Local
   * and that have no endpoint on this node, as kube-proxy counts them.
   */
  withoutLocalEndpoints(family: IpFamily, policy: 'internal' | 'external'): number {
    const names = new Set<string>()
    for (const { servicePort } of this.#withoutLocal.values()) {
      const { namespace, name } = servicePort.service
      if (servicePort.family === family && servicePort[policy].policy === 'Local')
        names.add(this.#writesRules ? servicePort.name : `${namespace}/${name}`)
    }
    return names.size
  }

  /** In iptables mode kube-proxy counts the port once for all its addresses; in ipvs mode each virtual server. */
  #isWithoutLocal({ roles, selection, servicePort }: Frontend): boolean {
    if (selection.noLocalEndpoints) return true
    return this.#writesRules && roles.includes('ClusterIP') && servicePort.external.noLocalEndpoints
  }

  get #writesRules(): boolean {
    return this.#rulesPending !== undefined
  }
}

/** Whether a change affects this IP family. A deletion counts for both, because the object is not known any more. */
function concerns({ kind, value }: Exclude<ObjectChange, { kind: 'nodes' }>, family: IpFamily): boolean {
  if (value === undefined) return true
  return kind === 'services' ? value.clusterIps[family] !== undefined : value.family === family
}
