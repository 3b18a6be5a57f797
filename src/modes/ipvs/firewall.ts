/**
 * What ipvs mode needs beside virtual servers and addresses: masquerading, source ranges, refusals,
 * health check ports. The mode says what is wanted and asks when a virtual server may be added;
 * only a firewall knows which objects of the kernel serve that.
 */
import type { KubeIpvsSettings } from '../../config/types.ts'
import type { Wanted } from '../../explain/wanted.ts'
import type { RuleSettings } from '../../iptables/local-traffic.ts'
import type { CountedConnection, SetSize } from '../../metrics/sources.ts'
import type { FamilySupport } from '../../node/families.ts'
import type { IptablesChoice } from '../../node/iptables-choice.ts'
import type { AddressFrontend, FrontendKey } from '../../service/frontends.ts'
import type { AuditShare } from '../../sync/audit.ts'
import type { Reconciled } from '../../sync/reconciled.ts'
import type { Stage } from '../../sync/reconciler.ts'
import type { Budget } from '../../values/budget.ts'
import type { IpFamily } from '../../values/protocol.ts'
import type { ModeListener, ModeOptions, ModeWatch, PendingPart } from '../mode.ts'
import type { ListedTable } from '../table-health.ts'

/** `kubeIPVS.virtualAddresses`. */
export type VirtualAddressKind = KubeIpvsSettings['virtualAddresses']

/** What a firewall depends on of the node. */
export interface FirewallNode {
  /** The Node's podCIDRs, for detectLocalMode NodeCIDR. */
  readonly podCidrs: readonly string[]
  /** Decides the source of the node's own traffic to virtual IPs. */
  readonly virtualAddresses: VirtualAddressKind
}

/** What the check of the node depends on. */
export interface FirewallCheck {
  /** Back end of iptables of the iptables firewall, where it has been chosen. */
  readonly iptables?: Pick<IptablesChoice, 'mode' | 'unusable'>
}

/** What metrics and health read. */
export interface FirewallSources {
  readonly tables: readonly ListedTable[]
  connections(): readonly CountedConnection[]
  /** What holds addresses and ports, and is not empty. */
  sizes(): readonly SetSize[]
}

/** What an audit needs of those who run it. */
export interface AuditTools {
  readonly share: AuditShare
  readonly onDoubt: ModeWatch['onDoubt']
}

export interface FirewallAudit {
  readonly name: string
  /** One round over everything. */
  round(signal: AbortSignal): Promise<void>
}

export interface Firewall {
  /** Logs what it uses, and returns what the check of the node needs to know of that. */
  begin(): FirewallCheck
  /** The kernel lacks these features: what needs them is left out where it can be. Call before the first pass. */
  lacks(features: ReadonlySet<string>): void
  /** The winning frontend of this key has changed; undefined: it has none. */
  frontend(key: FrontendKey, frontend: AddressFrontend | undefined): void
  /** The node or the configuration changed. */
  node(changed: Partial<FirewallNode>): void
  /**
   * What a pass does before it adds virtual servers; what it removes there, it removes after them.
   * @param onMayAdd called when `mayAdd` may answer otherwise than before
   */
  stages(onMayAdd: () => void): readonly Stage[]
  /**
   * Whether a new virtual server may take traffic now. A server waits a limited time, unless
   * clients are kept out until then.
   */
  mayAdd(key: FrontendKey, family: IpFamily): boolean
  /**
   * A pass over the tables has ended. `servesAll`: every virtual server and address was tried once,
   * so another mode is not needed any more. Returns whether what the firewall writes only then is
   * due: it belongs to the same pass.
   */
  passed(servesAll: boolean): boolean
  /** When it needs a pass without a request; undefined: nothing waits. */
  nextDueMs(): number | undefined
  /**
   * Whether the kernel has everything of this firewall that all Services need, so that the rules of
   * another proxy can be removed. What a single Service needs does not count, because its user can
   * write what the kernel always refuses.
   */
  readonly isComplete: boolean
  /** From now on it removes what nothing wants, and looks for what others left. */
  allowRemovals(): void
  /** Its tables in the order in which a pass adds, for a plan; what is wanted in them is up to date. */
  plan(): readonly Reconciled[]
  /** What is wanted for a frontend. */
  wanted(key: FrontendKey): Iterable<Wanted>
  /** What it writes beside the passes. */
  readonly parts: readonly PendingPart[]
  readonly sources: FirewallSources
  /** Begins to read the kernel, and reads its announcements until closed. */
  watch(onForeignWrite: ModeWatch['onForeignWrite']): { close(): void }
  /** Compares what announces no changes. */
  audits(tools: AuditTools): readonly FirewallAudit[]
  /** Stops; the kernel stays as it is. */
  close(): Promise<void>
}

export interface FirewallOptions extends Pick<ModeOptions, 'nodeName' | 'log' | 'now'> {
  readonly problems: Pick<ModeOptions['problems'], 'report'>
  /** Read once. */
  readonly settings: RuleSettings
  /** Whether a Service has this address; what is about a single other address takes no packets of Services. */
  readonly serves: (address: string) => boolean
  readonly listener: Pick<ModeListener, 'partPassed' | 'postponedReady'>
}

/** The kernel as a firewall needs it. */
export interface OpenedFirewall {
  /** The families that it can serve, and why not the others. */
  readonly support: FamilySupport
  create(options: FirewallOptions): Firewall
  /** In place of closing a firewall that was created. */
  close(): void
}

/**
 * What firewalls left in the kernel. Rules of iptables are not among it: those of all modes are
 * removed together.
 */
export interface FirewallRemains {
  /**
   * Whether a proxy made the virtual server of this key: a firewall serves it, and a node port only
   * at an address of the node. To be asked before anything is removed, because nothing else says
   * which virtual servers are ours.
   */
  owned(nodeAddresses: ReadonlySet<string>, signal: AbortSignal): Promise<(key: FrontendKey) => boolean>
  /** Its tables with nothing wanted in any. */
  removal(): readonly Reconciled[]
  close(): void
}

/** A kind of firewall. None of these changes anything. */
export interface FirewallKind {
  /**
   * Rejects with a code that says what the kernel or the node lacks, and what to load or install,
   * and where nothing is lacking, with `capability-missing` when this process lacks a right.
   */
  open(families: FamilySupport, signal: AbortSignal): Promise<OpenedFirewall>
  /**
   * Rejects as `open` does, and opens nothing. Unless `mayLoadModules`, a module that only a program
   * would load counts as there.
   */
  ask(families: FamilySupport, signal: AbortSignal, options: { readonly mayLoadModules: boolean }): Promise<void>
  /** Whether the kernel has any of it. Loads no module but nf_tables. */
  isLeft(families: readonly IpFamily[], signal: AbortSignal, budget?: Budget): Promise<boolean>
  /** Undefined where the kernel can have none. */
  remains(families: readonly IpFamily[], signal: AbortSignal): Promise<FirewallRemains | undefined>
}
