/**
 * What the parts of the proxy report. `daemon.ts` makes the one object of this kind, which is where
 * one reads who receives what and in which order. A part gets the methods that it calls, and calls
 * none before `Proxy.start`.
 */
import type { AuditObserver, ModeListener, NodeView } from '../modes/mode.ts'
import type { LoopListener } from '../sync/loop.ts'
import type { CodedError } from '../values/errors.ts'
import type { ObjectSink } from '../watch/source.ts'

export interface ProxyListener extends LoopListener, ModeListener {
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
  /** The netlink socket of this port id, which is not ours, changed an item of ours. */
  foreignWrite(portId: number): void
  /** An audit has ended, or has compared a part of the kernel and found no difference. */
  readonly audits: AuditObserver

  /** Only a new process can help. */
  failed(error: CodedError): void
}
