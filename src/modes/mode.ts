/** What the proxy needs of a mode. Before the first pass only `prepare` changes the node. */
import type { KubeProxyConfiguration, ProxyMode } from '../config/types.ts'
import type { StaleFlows } from '../conntrack/stale-flows.ts'
import type { CurrentDrain } from '../ipvs/drains.ts'
import type { CurrentOutlier, OutlierDecision } from '../ipvs/outlier-states.ts'
import type { ChosenFirewall } from './chosen-firewall.ts'
import type { TableHealth } from './table-health.ts'
import type { KernelSources } from '../metrics/sources.ts'
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import type { FamilySupport } from '../node/families.ts'
import type { ProblemLog } from '../serve/problem-log.ts'
import type { InterfaceAddress } from '../service/node-addresses.ts'
import type { Frontend } from '../service/frontends.ts'
import type { NodePortFrontends } from '../service/contribution.ts'
import type { NodeContext } from '../service/node-context.ts'
import type { Dataplane } from '../sync/loop.ts'
import type { Part } from '../sync/part.ts'
import type { PlanRow } from '../sync/plan.ts'
import type { PassReport } from '../sync/pass.ts'
import type { Problem } from '../values/errors.ts'
import type { Log } from '../values/log.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { Clock } from '../values/clock.ts'
import type { Wanted } from '../explain/wanted.ts'

export interface ModeDataplane extends Dataplane {
  readonly staleFlows: StaleFlows
  /** What the next pass would find and do. */
  plan(signal: AbortSignal): Promise<PlanRow[]>
  /** What is wanted in the kernel for these frontends, which are those of one Service, each with its claim won. */
  wanted(frontends: readonly Frontend[]): Iterable<Wanted>
}

export interface ModeOptions {
  /** The configuration in force. A mode reads fields that are not live once. */
  readonly configuration: () => KubeProxyConfiguration
  readonly nodeName: string
  readonly problems: ProblemLog
  readonly log: Log
  readonly now: Clock
  readonly listener: ModeListener
}

/** What a mode writes beside the passes, because a process may be slow or hang. */
export interface PendingPart extends Part {
  readonly isPending: boolean
}

export function isAnyPending(parts: readonly PendingPart[]): boolean {
  return parts.some((part) => part.isPending)
}

/** Whether something of this family is still to be written beside the tables. */
export function isPendingIn(parts: readonly PendingPart[], family: IpFamily): boolean {
  return isAnyPending(parts.filter(({ families }) => families.includes(family)))
}

/** What a mode reports, from `prepare` on. */
export interface ModeListener {
  /** A pass over what is written beside the tables has ended. */
  partPassed(part: Part, report: PassReport, durationMs: number): void
  /** A pass can add now what it had to postpone. */
  postponedReady(): void
  /** Stale flows of a family were removed, or some of them before a failure. */
  flowsRemoved(family: IpFamily, deleted: number, durationMs: number): void
  /** Endpoints that do not answer get no new connections, or get them again; a pass is to apply it. */
  outliersJudged(decisions: readonly OutlierDecision[]): void
  /** The kernel has no IPVS any more, and does not load it. Called again as long as this lasts. */
  ipvsLost(): void
}

/** The node at one moment. */
export interface NodeView {
  readonly context: NodeContext
  /** Problems of `nodePortAddresses` on this node. */
  readonly problems: readonly Problem[]
  /** Of all interfaces but kube-ipvs0. */
  readonly addresses: readonly InterfaceAddress[]
  readonly podCidrs: readonly string[]
}

export interface ModeWatch {
  /** Items were doubted: a pass should read them. */
  readonly onDoubt: () => void
  /** Addresses of the node may have changed. */
  readonly onNodeAddresses: () => void
  /** The netlink socket of this port id, which is not ours, changed an item of ours. */
  readonly onForeignWrite: (portId: number) => void
}

/** Counts audits. */
export interface AuditObserver {
  /** A round over everything has ended. */
  ended(audit: string, durationMs: number, failed: boolean): void
  /** A part was compared, and no difference was found. */
  confirmed(): void
}

export interface Mode {
  /** Which one it is: after a fallback not the configured one. */
  readonly name: ProxyMode
  readonly dataplane: ModeDataplane
  /** The firewall of ipvs mode; iptables mode has none beside its rules. */
  readonly firewall?: ChosenFirewall
  /** Where node ports have their frontends. */
  readonly nodePorts: NodePortFrontends
  /** Families that are served. */
  readonly families: readonly IpFamily[]
  /** The same families, and why the others are not served. */
  readonly support: FamilySupport
  /** For reading the node; the mode writes over another connection, so that a change never waits for a dump. */
  readonly rtnetlink: RtnetlinkConnection
  /** What is written beside the passes. */
  readonly parts: readonly PendingPart[]
  /** The numbers that a scrape reads. */
  readonly sources: KernelSources
  /** The health of every table after the last pass. */
  tableHealth(): Iterable<TableHealth>
  /** The drains that are under way at a time of the mode's clock. Only ipvs mode has some. */
  drains(nowMs: number): Iterable<CurrentDrain>
  /** Endpoints that do not answer. Only ipvs mode finds some. */
  outliers(nowMs: number): Iterable<CurrentOutlier>
  nodeChanged(node: NodeView): void
  /** The configuration changed in fields that are live in this mode; `nodeChanged` and a new `audit` follow. */
  reconfigured(): void
  /**
   * Writes settings of the kernel, and reports what it lacks. Rejects when the mode cannot work
   * here, or when aborted.
   */
  prepare(signal: AbortSignal): Promise<void>
  /** Reads every announcement from the moment this returns, and begins to read the rules. */
  watch(watch: ModeWatch): { close(): void }
  /** Compares what announces no changes, again and again. Resolves when aborted; never rejects. */
  audit(watch: ModeWatch, observer: AuditObserver, signal: AbortSignal): Promise<void>
  /** A pass over tables has ended, with or without failures. */
  passed(report: PassReport): void
  /** Stops; the kernel stays as it is. */
  close(): Promise<void>
}

/**
 * Rules that the kernel announces are read again after this time all the same, because an
 * announcement can be missed: kube-proxy rewrites all rules after an hour. Milliseconds.
 */
export const FULL_SYNC_MS = 3_600_000

/**
 * The periods of the configured mode, whichever runs: as in kube-proxy, a configuration holds those
 * of its mode only.
 */
export function periodsOf({ mode, ipvs, iptables }: Pick<KubeProxyConfiguration, 'mode' | 'ipvs' | 'iptables'>): {
  readonly syncPeriodMs: number
  readonly minSyncPeriodMs: number
} {
  return mode === 'ipvs' ? ipvs : iptables
}
