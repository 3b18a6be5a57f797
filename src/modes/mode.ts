/**
 * What the proxy needs of a mode, ipvs or iptables, whichever it is.
 * What could break: nothing but `prepare` changes the node before the first pass.
 */
import type { KubeProxyConfiguration } from '../config/types.ts'
import type { StaleFlows, StaleFlowsOptions } from '../conntrack/stale-flows.ts'
import type { TableHealth } from './table-health.ts'
import type { KernelSources } from '../metrics/sources.ts'
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import type { FamilySupport } from '../node/families.ts'
import type { ProblemLog } from '../serve/problem-log.ts'
import type { InterfaceAddress } from '../service/node-addresses.ts'
import type { NodePortFrontends } from '../service/contribution.ts'
import type { NodeContext } from '../service/node-context.ts'
import type { Dataplane } from '../sync/loop.ts'
import type { PassReport } from '../sync/reconciler.ts'
import type { Problem } from '../values/errors.ts'
import type { Log } from '../values/log.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { Clock } from '../values/clock.ts'

export interface ModeDataplane extends Dataplane {
  readonly staleFlows: StaleFlows
  /** What a pass would do, as commands. */
  preview(options: { readonly signal: AbortSignal; readonly mayRemove: boolean }): Promise<string[]>
}

export interface ModeOptions {
  /** As it is in force now; what is not live is taken from it once. */
  readonly configuration: () => KubeProxyConfiguration
  readonly nodeName: string
  readonly problems: ProblemLog
  readonly log: Log
  readonly now: Clock
  /** Hears of each pass over the rules of a family. */
  readonly onRulesPassed: (report: PassReport, durationMs: number, family: IpFamily) => void
  /** What a pass had to leave may come now. */
  readonly onReady: () => void
  readonly onFlowsRemoved: StaleFlowsOptions['onRemoved']
}

/** The node at one moment. */
export interface NodeView {
  readonly context: NodeContext
  /** What is wrong with `nodePortAddresses` on this node. */
  readonly problems: readonly Problem[]
  /** Of all interfaces but kube-ipvs0. */
  readonly addresses: readonly InterfaceAddress[]
  readonly podCidrs: readonly string[]
}

export interface ModeWatch {
  /** A pass should look at what is doubted now. */
  readonly onDoubt: () => void
  /** An address or a link that is not ours changed. */
  readonly onNodeAddresses: () => void
}

/** Counts audits. */
export interface AuditObserver {
  /** A round over everything has ended. */
  ended(audit: string, durationMs: number, failed: boolean): void
  /** A part was compared, and no difference was found. */
  looked(): void
}

export interface Mode {
  readonly dataplane: ModeDataplane
  /** Where node ports have their frontends. */
  readonly nodePorts: NodePortFrontends
  /** Families that are served. */
  readonly families: readonly IpFamily[]
  /** The same, with why another one is not. */
  readonly support: FamilySupport
  readonly rtnetlink: RtnetlinkConnection
  /** Loops that write rules beside the passes. */
  readonly rules: readonly { readonly family: IpFamily; readonly isPending: boolean }[]
  /** Whether rules are being written. */
  readonly isPending: boolean
  /** What a scrape reads. */
  readonly sources: KernelSources
  /** Every table as it stands after a pass. */
  tableHealth(): Iterable<TableHealth>
  nodeChanged(node: NodeView): void
  /** The configuration changed in fields that are live in this mode; `nodeChanged` and a new `audit` follow. */
  reconfigured(): void
  /** Settings of the kernel, and what it lacks. Rejects when the mode cannot work here, or when aborted. */
  prepare(signal: AbortSignal): Promise<void>
  /** Hears every announcement from the moment this returns, and begins to read. */
  watch(watch: ModeWatch): { close(): void }
  /** Looks after what announces nothing. Resolves when aborted; never rejects. */
  audit(watch: ModeWatch, observer: AuditObserver, signal: AbortSignal): Promise<void>
  /** A pass over tables is over, without failures or with. */
  passed(report: PassReport): void
  /** Stops; the kernel stays as it is. */
  close(): Promise<void>
}

/** The periods of the configured mode. */
export function periodsOf({ mode, ipvs, iptables }: Pick<KubeProxyConfiguration, 'mode' | 'ipvs' | 'iptables'>): {
  readonly syncPeriodMs: number
  readonly minSyncPeriodMs: number
} {
  return mode === 'ipvs' ? ipvs : iptables
}
