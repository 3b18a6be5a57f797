/**
 * When passes may begin, and when they may remove: once every source has listed and this Node is known, or was waited
 * for as long as kube-proxy does. Without pod CIDRs, where they tell local traffic, nothing may be written at all.
 */
import type { KubeProxyConfiguration } from '../config/types.ts'
import type { FamilySupport } from '../node/families.ts'
import type { ObjectChange, ObjectKind } from '../service/objects.ts'
import type { CodedError } from '../values/errors.ts'
import type { Log } from '../values/log.ts'
import { FirstLists } from './first-lists.ts'
import { logListed } from './list-log.ts'
import { NodePresence, type NodeWaits } from './node-presence.ts'
import { logNode } from './start-log.ts'

export interface OpeningOptions {
  readonly configuration: KubeProxyConfiguration
  readonly nodeName: string
  readonly support: FamilySupport
  readonly log: Log
  /** How long the Node is waited for, where that is not as long as kube-proxy does. */
  readonly nodeWaits?: NodeWaits
  /** False where nobody makes the Node object. Default true. */
  readonly needsNode?: boolean | undefined
  /** The Node has listed; comes before `open`. */
  readonly onNode: () => void
  /** Passes may run from now on; `mayRemove` false: what nothing wants stays. Called again when that changes. */
  readonly open: (mayRemove: boolean) => void
  /** Only a new process can help. */
  readonly onFatal: (error: CodedError) => void
}

export class Opening {
  readonly #options: OpeningOptions
  readonly #lists: FirstLists
  readonly #presence: NodePresence
  /** Undefined until every list is complete; false: every one but the Node's. */
  #listed: boolean | undefined

  constructor(options: OpeningOptions) {
    const { configuration, nodeName, support, log, nodeWaits, needsNode, onNode, onFatal } = options
    this.#options = options
    this.#lists = new FirstLists({
      onNode,
      onNodeAwaited: (timeoutMs) =>
        log.info('Waiting for the list of Nodes', { node: nodeName, timeout: `${timeoutMs / 1000}s` }),
      onComplete: (withNode) => this.#complete(withNode),
    })
    this.#presence = new NodePresence({
      nodeName,
      detectLocalMode: configuration.detectLocalMode,
      log,
      needsNode,
      ...(nodeWaits === undefined ? {} : { waits: nodeWaits }),
      onChange: () => this.#openIfReady(),
      onFirst: (nodeIps, podCidrs) => {
        const error = logNode({ configuration, support, nodeIps, podCidrs, log })
        if (error !== undefined) onFatal(error)
      },
      onFatal,
    })
  }

  /** Kinds that have not listed yet. */
  get awaited(): ReadonlySet<ObjectKind> {
    return this.#lists.awaited
  }

  apply(changes: readonly ObjectChange[]): void {
    this.#presence.apply(changes)
  }

  listed(kind: ObjectKind): void {
    logListed(kind, this.#options.log)
    if (kind === 'nodes') this.#presence.listed()
    this.#lists.listed(kind)
  }

  close(): void {
    this.#lists.close()
    this.#presence.close()
  }

  #complete(withNode: boolean): void {
    const { log, nodeName } = this.#options
    if (!withNode)
      log.warn('Going on without the Node object; nothing is removed until it is known', { node: nodeName })
    this.#listed = withNode
    this.#openIfReady()
  }

  #openIfReady(): void {
    if (this.#listed === undefined || this.#presence.mustHold) return
    this.#options.open(this.#listed && this.#presence.isSettled)
  }
}
