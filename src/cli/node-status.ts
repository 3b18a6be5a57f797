/** What `kube-ipvs status` knows: the state of the kernel, and what the daemon tells about it. */
import type { Fallback } from '../modes/fallback.ts'
import type { NoAnswer } from '../inspect/daemon-client.ts'
import type { DaemonView, OutlierView, RowsView } from '../inspect/view.ts'
import type { RowCounts } from '../sync/plan.ts'
import type { IpvsState, KernelState, RealServerState, VirtualServerState } from '../modes/look/kernel-state.ts'

export interface VirtualServerStatus extends VirtualServerState {
  /** `namespace/name:port`; null: no Service owns it. Absent when Services were not listed. */
  readonly service?: string | null
  readonly realServers: readonly RealServerStatus[]
}

export interface RealServerStatus extends RealServerState {
  /** What the daemon says of a real server that does not answer; absent of others. */
  readonly outlier?: Pick<OutlierView, 'state' | 'seconds' | 'nextTrialSeconds'>
  /** What the daemon knows of a drain; absent without one. */
  readonly drain?: { readonly seconds: number; readonly deadlineSeconds: number | null }
}

export interface IpvsStatus extends IpvsState {
  readonly virtualServers: readonly VirtualServerStatus[]
  /** The source of the names of Services; absent when none was queried, or none answered. */
  readonly namesFrom?: string
}

/** The answer to the question whether this node is fine. */
export interface Verdict {
  /** null: unknown */
  readonly fine: boolean | null
  /** Why it is not fine, or why that is unknown. */
  readonly reasons: readonly string[]
  /** What is worth a look although the node is fine. */
  readonly notes: readonly string[]
}

/** What `status --output json` prints. */
export interface Status extends KernelState {
  /**
   * The mode of the proxy that answers, else the mode whose items the kernel has; null when it has
   * none, or items of both modes.
   */
  readonly mode: string | null
  /**
   * Why the node is in iptables mode although ipvs mode is configured: of the proxy that answers,
   * else for a configuration that was given and as the kernel is now. null: nothing is missing, or
   * nothing is known.
   */
  readonly fallback: Fallback | null
  /** The metrics address that was queried for the mode. */
  readonly proxy: { readonly address: string; readonly answers: boolean }
  readonly version: string
  readonly ipvs: IpvsStatus | null
  /** The first line. */
  readonly verdict: Verdict
  /** The path at which the daemon was asked; '': it has no socket. */
  readonly socket: string
  /** What the daemon tells about itself; null when it does not answer. */
  readonly daemon: DaemonView | null
  /** Why it does not answer; null when it does. */
  readonly daemonUnknown: NoAnswer | null
  /**
   * What the kernel has of what is wanted, as `diff` would find it: objects by their state, and the
   * first of those that are wrong. null: unknown.
   */
  readonly rows: (RowCounts & Omit<RowsView, 'format'>) | null
}
