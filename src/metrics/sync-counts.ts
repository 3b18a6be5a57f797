/**
 * Counts what the loop does, as kube-proxy counts its syncs: changes that come, passes, how long a change took to reach the kernel.
 * `changed` and `frontend` run at every change, so they cost no more than a few numbers, whatever the cluster's size, and leave
 * nothing behind.
 */
import type { Frontend, FrontendKey } from '../service/frontends.ts'
import type { EndpointSlice, ObjectChange } from '../service/objects.ts'
import { lacksLocalEndpoints } from '../service/topology.ts'
import type { PassReport } from '../sync/reconciler.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import { Histogram, PROGRAMMING_SECONDS, SYNC_SECONDS } from './histogram.ts'

/** Trigger times that are kept while the kernel is out of reach. */
const MAX_TRIGGERS = 10_000

/** The counts of one family of addresses. Times are wall clock, in milliseconds since the epoch; 0: not yet. */
class FamilyCounts {
  readonly syncSeconds = new Histogram(SYNC_SECONDS)
  readonly programmingSeconds = new Histogram(PROGRAMMING_SECONDS)
  readonly conntrackSeconds = new Histogram(SYNC_SECONDS)
  deletedFlows = 0
  restoreFailures = 0
  lastQueuedMs = 0
  lastSyncedMs = 0
  /** Its rules could not be written at the last try. */
  rulesFail = false
  /** Trigger times of changes that no pass has taken up yet, and of those that the pass that is on has taken up. */
  arrived: number[] = []
  underWay: number[] = []

  /** What is under way is in the kernel. */
  programmed(nowMs: number): void {
    for (const triggeredAtMs of this.underWay)
      this.programmingSeconds.observe(Math.max(0, nowMs - triggeredAtMs) / 1000)
    this.underWay.length = 0
  }
}

/** Slices by key (`namespace/name`). */
export interface KnownSlices {
  slice(key: string): EndpointSlice | undefined
}

export interface SyncCountsOptions {
  /** Families the kernel has. */
  readonly families: readonly IpFamily[]
  /** Wall clock, in milliseconds since the epoch. */
  readonly wallMs: () => number
  readonly nodeName: string
  /** Where rules are the whole of a sync (iptables mode): whether rules of this family are still to be written. */
  readonly rulesPending?: ((family: IpFamily) => boolean) | undefined
}

export class SyncCounts {
  readonly families: readonly IpFamily[]
  readonly of: Readonly<Record<IpFamily, FamilyCounts>> = { IPv4: new FamilyCounts(), IPv6: new FamilyCounts() }
  serviceChanges = 0
  servicesPending = 0
  sliceChanges = 0
  slicesPending = 0
  /** Passes after which something was not as it shall be: over the tables, and over the rules. */
  tableFailures = 0
  ruleFailures = 0
  readonly #wallMs: () => number
  readonly #nodeName: string
  readonly #rulesPending: SyncCountsOptions['rulesPending']
  readonly #startMs: number
  /** Frontends of Services with a policy Local that have endpoints, but none on this node. */
  readonly #withoutLocal = new Map<FrontendKey, Frontend>()
  #touchedIPv4 = false
  #touchedIPv6 = false
  #tablesFail = false

  constructor({ families, wallMs, nodeName, rulesPending }: SyncCountsOptions) {
    this.families = families
    this.#wallMs = wallMs
    this.#nodeName = nodeName
    this.#rulesPending = rulesPending
    this.#startMs = wallMs()
  }

  /**
   * Changes came, which are not taken in yet. @param known slices as they were before: one whose trigger time stays the same was
   * changed for another reason (kube-proxy compares the endpoints)
   */
  changed(changes: readonly ObjectChange[], known: KnownSlices): void {
    const nowMs = this.#wallMs()
    for (const change of changes) {
      if (change.kind === 'nodes') continue
      if (change.kind === 'services') {
        this.serviceChanges++
        this.servicesPending++
      } else {
        this.sliceChanges++
        this.slicesPending++
        // kube-proxy's rule: what happened before it started does not count, and what a slice said last says nothing of its end.
        const triggeredAtMs = change.value?.triggeredAtMs ?? 0
        if (triggeredAtMs > this.#startMs && change.value !== undefined) {
          const { arrived } = this.of[change.value.family]
          if (known.slice(change.key)?.triggeredAtMs !== triggeredAtMs && arrived.length < MAX_TRIGGERS)
            arrived.push(triggeredAtMs)
        }
      }
      for (const family of IP_FAMILIES) if (concerns(change, family)) this.of[family].lastQueuedMs = nowMs
    }
  }

  /** The winning frontend of this key is another one now, or there is none. */
  frontend(key: FrontendKey, frontend: Frontend | undefined): void {
    if (key.startsWith('[')) this.#touchedIPv6 = true
    else this.#touchedIPv4 = true
    if (frontend !== undefined && this.#isWithoutLocal(frontend)) this.#withoutLocal.set(key, frontend)
    else if (this.#withoutLocal.size > 0) this.#withoutLocal.delete(key)
  }

  /** Everything that has come is worked out: the pass that follows takes it up. */
  takenUp(): void {
    this.servicesPending = 0
    this.slicesPending = 0
    for (const family of IP_FAMILIES) {
      const counts = this.of[family]
      if (counts.arrived.length === 0) continue
      if (counts.underWay.length === 0) {
        ;[counts.arrived, counts.underWay] = [counts.underWay, counts.arrived]
      } else {
        counts.underWay = counts.underWay.concat(counts.arrived).slice(-MAX_TRIGGERS)
        counts.arrived.length = 0
      }
    }
  }

  /** A pass is over, over the tables or over the rules of a family. */
  passed(what: 'tables' | IpFamily, report: PassReport, durationMs: number): void {
    if (what !== 'tables') this.#rulesPassed(what, report, durationMs)
    else if (this.#rulesPending === undefined) this.#tablesPassed(report, durationMs)
    else this.#handedOn(this.#rulesPending)
  }

  /** What asks for no other rule of a family is programmed in it. */
  #handedOn(rulesPending: (family: IpFamily) => boolean): void {
    const nowMs = this.#wallMs()
    for (const family of this.families) if (!rulesPending(family)) this.of[family].programmed(nowMs)
  }

  /** It was a sync of the families whose frontends changed; of both when none did. */
  #tablesPassed(report: PassReport, durationMs: number): void {
    const nowMs = this.#wallMs()
    const both = this.#touchedIPv4 === this.#touchedIPv6
    this.#tablesFail = report.unreadable.length > 0
    if (this.#tablesFail || report.failures.length > 0) this.tableFailures++
    for (const family of this.families) {
      const counts = this.of[family]
      if (both || (family === 'IPv4' ? this.#touchedIPv4 : this.#touchedIPv6))
        counts.syncSeconds.observe(durationMs / 1000)
      // What could not be read now is late until it can.
      if (this.#tablesFail) continue
      if (!counts.rulesFail) counts.lastSyncedMs = nowMs
      counts.programmed(nowMs)
    }
    this.#touchedIPv4 = false
    this.#touchedIPv6 = false
  }

  /** One that only looked is no sync. */
  #rulesPassed(family: IpFamily, report: PassReport, durationMs: number): void {
    const counts = this.of[family]
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
   * An audit looked at a part of the kernel and found it as it shall be. kube-proxy syncs everything once a period; alerts on the
   * time of its last sync must not go off because there was nothing to do.
   */
  looked(): void {
    if (this.#tablesFail) return
    const nowMs = this.#wallMs()
    for (const family of this.families) {
      const counts = this.of[family]
      if (counts.lastSyncedMs > 0 && !counts.rulesFail) counts.lastSyncedMs = nowMs
    }
  }

  /** Stale flows of a family were looked for and deleted. */
  flowsRemoved(family: IpFamily, deleted: number, durationMs: number): void {
    this.of[family].deletedFlows += deleted
    this.of[family].conntrackSeconds.observe(durationMs / 1000)
  }

  /**
   * What of a family has this policy Local and no endpoint on this node: Services in ipvs mode, ports of Services in iptables
   * mode, as in kube-proxy.
   */
  withoutLocalEndpoints(family: IpFamily, policy: 'internal' | 'external'): number {
    const names = new Set<string>()
    for (const frontend of this.#withoutLocal.values()) {
      const { service, servicePortName } = frontend
      const isLocal =
        (policy === 'internal' ? service.internalTrafficPolicy : service.externalTrafficPolicy) === 'Local'
      if (frontend.family === family && isLocal)
        names.add(this.#writesRules ? servicePortName : `${service.namespace}/${service.name}`)
    }
    return names.size
  }

  /** In iptables mode kube-proxy looks at the port, whatever addresses it has; in ipvs mode at each virtual server. */
  #isWithoutLocal(frontend: Frontend): boolean {
    if (frontend.noLocalEndpoints) return true
    if (!this.#writesRules || !frontend.roles.includes('ClusterIP')) return false
    const { service, candidates } = frontend
    return service.externalTrafficPolicy === 'Local' && lacksLocalEndpoints(candidates, this.#nodeName)
  }

  get #writesRules(): boolean {
    return this.#rulesPending !== undefined
  }
}

/** Whether a change is one for this family; of what is gone nobody knows. */
function concerns({ kind, value }: Exclude<ObjectChange, { kind: 'nodes' }>, family: IpFamily): boolean {
  if (value === undefined) return true
  return kind === 'services' ? value.clusterIps[family] !== undefined : value.family === family
}
