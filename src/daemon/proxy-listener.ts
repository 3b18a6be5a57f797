/**
 * What the parts of the proxy report. `daemon.ts` makes the one object of this kind, which is where one reads who receives what and
 * in which order. A part gets the methods that it calls, and calls none before `Proxy.start`.
 */
import type { AuditObserver } from '../modes/mode.ts'
import type { ModeOptions, NodeView } from '../modes/mode.ts'
import type { FrontendListener } from '../sync/desired-frontends.ts'
import type { PassReport } from '../sync/reconciler.ts'
import type { CodedError } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { ObjectSink } from '../watch/source.ts'

export interface ProxyListener {
  /** The source of objects: changes, complete lists, problems with objects. */
  readonly source: ObjectSink

  /** The list of Nodes is complete; called before `passesMayRun`. */
  nodesListed(): void
  /** Passes may run. With `mayRemove` false they keep what no Service wants. Called again when `mayRemove` changes. */
  passesMayRun(mayRemove: boolean): void
  /** The Node object, the addresses or the settings of the node may have changed. */
  nodeChanged(node: NodeView): void

  /** The kernel announced a change of an address or a link that is not ours. */
  nodeAddressesAnnounced(): void
  /** The kernel may differ from what was read; a pass should read again what is in doubt. */
  kernelDoubted(): void
  /** An audit has ended, or has compared a part of the kernel and found no difference. */
  readonly audits: AuditObserver

  /** A pass begins, or the work on Services before it. */
  passBegins(): void
  frontendChanged: FrontendListener['frontend']
  serviceProblems: FrontendListener['problems']
  /** Every change so far is worked out; the pass that follows applies it. */
  frontendsReady(): void
  /** A pass over the tables has ended. */
  tablesPassed(report: PassReport, durationMs: number): void
  /** A pass over the rules of a family has ended. */
  rulesPassed(report: PassReport, durationMs: number, family: IpFamily): void
  /** The next pass can do something that the last one had to postpone. */
  postponedReady(): void
  /** A pass rejected, which is a mistake of ours. The loop continues. */
  passFailed(error: unknown): void
  /** Stale flows of a family were deleted. */
  flowsRemoved: ModeOptions['onFlowsRemoved']

  /** Only a new process can help. */
  failed(error: CodedError): void
}
