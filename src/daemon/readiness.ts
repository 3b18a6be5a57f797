/**
 * When passes may begin, and when they may remove: passes begin when every kind of object has
 * listed, and remove once the Node and its addresses are known. The Node is awaited as long as
 * kube-proxy awaits it and no longer, so that a wrong --hostname-override leaves no old Service
 * behind. In NodeCIDR mode nothing may be written before the Node has pod CIDRs: without them local
 * traffic cannot be distinguished from other traffic.
 */
import type { KubeProxyConfiguration } from '../config/types.ts'
import type { FamilySupport } from '../node/families.ts'
import type { Node, ObjectChange, ObjectKind } from '../service/objects.ts'
import { familyOf } from '../values/address.ts'
import { CodedError } from '../values/errors.ts'
import { sameList } from '../values/lists.ts'
import type { Log } from '../values/log.ts'
import { FirstLists } from './first-lists.ts'
import type { ProxyListener } from './proxy-listener.ts'
import { logNode } from './start-log.ts'

/** In milliseconds. */
export interface NodeWaits {
  /**
   * From the list of Nodes to a Node with addresses; 0: a Node that is not in the list is not
   * awaited. kube-proxy: 30,000.
   */
  readonly nodeMs: number
  /** In NodeCIDR mode, from there to the Node and its pod CIDRs. kube-proxy: 300,000. */
  readonly podCidrsMs: number
}

const WAITS: NodeWaits = { nodeMs: 30_000, podCidrsMs: 300_000 }

export interface ReadinessOptions {
  readonly configuration: KubeProxyConfiguration
  readonly nodeName: string
  readonly support: FamilySupport
  readonly log: Log
  readonly listener: Pick<ProxyListener, 'nodesListed' | 'passesMayRun' | 'failed'>
  /** Whether the addresses of the host could be read; until then nothing is removed. Default: they could. */
  readonly hasAddresses?: () => boolean
  /**
   * False for a source without an API server, where no kubelet creates the Node; a Node that exists
   * counts. Default true.
   */
  readonly needsNode?: boolean | undefined
  /** Default: kube-proxy's. */
  readonly waits?: NodeWaits | undefined
}

/**
 * Names of an informer in kube-proxy's log. kube-proxy awaits the Node before the others and logs
 * no controller for it.
 */
interface Informer {
  readonly type: string
  readonly controller?: string
}

const INFORMERS: Readonly<Record<ObjectKind, Informer>> = {
  nodes: { type: '*v1.Node' },
  services: { type: '*v1.Service', controller: 'service config' },
  endpointslices: { type: '*v1.EndpointSlice', controller: 'endpoint slice config' },
}

export class Readiness {
  readonly #options: ReadinessOptions
  readonly #waits: NodeWaits
  readonly #lists = new FirstLists()
  #node: Node | undefined
  #nodeIps: readonly string[] = []
  #podCidrs: readonly string[] = []
  /** The Node has addresses, or the wait for them has ended. */
  #isNodeSettled = false
  /** Passes run already, and wait for the addresses of the host before they remove. */
  #awaitsAddresses = false
  /** The wait for the list of Nodes has ended without it. */
  #isNodeListOverdue = false
  /** The one wait that is under way: for the list of Nodes, then for the Node, then for its pod CIDRs. */
  #timer: NodeJS.Timeout | undefined

  constructor(options: ReadinessOptions) {
    this.#options = options
    this.#waits = options.waits ?? WAITS
  }

  /** Kinds that have not listed yet. */
  get awaited(): ReadonlySet<ObjectKind> {
    return this.#lists.awaited
  }

  /**
   * Logs that the lists are awaited, as kube-proxy's informers do. The line that is missing shows
   * where a start hangs.
   */
  start(): void {
    const { log } = this.#options
    for (const { controller } of Object.values(INFORMERS)) {
      if (controller !== undefined) log.info(`Starting ${controller} controller`)
      log.info('Waiting for caches to sync', { controller })
    }
  }

  /** Takes in the Node of this proxy, if it is among the changes. */
  apply(changes: readonly ObjectChange[]): void {
    const { nodeName, log } = this.#options
    for (const { kind, key, value } of changes) {
      if (kind !== 'nodes' || key !== nodeName) continue
      if (value === undefined && this.#node !== undefined) log.info('Node is being deleted', { node: nodeName })
      this.#node = value
      if (value !== undefined && !this.awaited.has('nodes')) this.#nodeChanged(value)
    }
  }

  /** The addresses of the host are known now, or have changed. */
  addressesChanged(): void {
    if (this.#awaitsAddresses && this.#hasAddresses) this.#report()
  }

  /** The first list of this kind is complete. */
  listed(kind: ObjectKind): void {
    const { log, listener, nodeName } = this.#options
    const { type, controller } = INFORMERS[kind]
    log.verbose(2, 'Caches populated', { type })
    log.info('Caches are synced', { controller })
    if (kind === 'nodes') this.#awaitNode()
    this.#lists.listed(kind)
    if (kind === 'nodes') listener.nodesListed()
    if (this.awaited.size === 0) this.#report()
    else if (this.awaited.size === 1 && this.awaited.has('nodes')) {
      // As long as kube-proxy awaits the Node, also where the wait for the Node itself is shorter.
      log.info('Waiting for the list of Nodes', { node: nodeName, timeout: seconds(WAITS.nodeMs) })
      this.#wait(WAITS.nodeMs, () => {
        log.warn('Continuing without the Node object; stale entries are kept until it is available', { node: nodeName })
        this.#isNodeListOverdue = true
        this.#report()
      })
    }
  }

  close(): void {
    clearTimeout(this.#timer)
  }

  get #lacksPodCidrs(): boolean {
    return this.#options.configuration.detectLocalMode === 'NodeCIDR' && this.#podCidrs.length === 0
  }

  /** What the Node still lacks before its addresses are known, in kube-proxy's words. */
  get #nodeLacks(): string {
    return this.#node === undefined ? 'exist' : 'be assigned IPs'
  }

  #wait(milliseconds: number, end: () => void): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(end, milliseconds)
  }

  /** Reports whether passes may run now and whether they may remove, unless they have to wait. */
  #report(): void {
    const isComplete = this.awaited.size === 0
    if ((!isComplete && !this.#isNodeListOverdue) || this.#lacksPodCidrs) return
    this.#awaitsAddresses = !this.#hasAddresses
    this.#options.listener.passesMayRun(isComplete && this.#isNodeSettled && !this.#awaitsAddresses)
  }

  get #hasAddresses(): boolean {
    return this.#options.hasAddresses?.() ?? true
  }

  /** The Nodes have listed: this proxy's Node is known, or awaited from now on. */
  #awaitNode(): void {
    clearTimeout(this.#timer)
    if (this.#node !== undefined) this.#nodeChanged(this.#node)
    if (this.#isNodeSettled) return
    const { log, nodeName, needsNode } = this.#options
    if (needsNode === false) {
      const what = this.#node === undefined ? 'Node object of this name' : 'addresses of the Node'
      log.info(`The manifests have no ${what}; continuing without`, { node: nodeName })
      this.#settle()
    } else if (this.#waits.nodeMs === 0) this.#giveUp()
    else {
      log.info(`Waiting for node to ${this.#nodeLacks}`, { node: nodeName, timeout: seconds(this.#waits.nodeMs) })
      this.#wait(this.#waits.nodeMs, () => this.#giveUp())
    }
  }

  #nodeChanged(node: Node): void {
    const { log, nodeName, listener, configuration } = this.#options
    const before = this.#nodeIps
    const nodeIps = firstOfEachFamily(node.addresses)
    this.#nodeIps = nodeIps
    const hasOtherPodCidrs =
      this.#podCidrs.length > 0 && node.podCidrs.length > 0 && !sameList(this.#podCidrs, node.podCidrs)
    if (hasOtherPodCidrs && configuration.detectLocalMode === 'NodeCIDR') {
      const fields = { node: nodeName, newPodCIDRs: node.podCidrs, oldPodCIDRs: this.#podCidrs }
      log.info('PodCIDRs changed for the node', fields)
      listener.failed(new CodedError('pod-cidrs-changed', 'PodCIDRs changed for the node'))
      return
    }
    const lackedPodCidrs = this.#lacksPodCidrs
    if (node.podCidrs.length > 0) this.#podCidrs = node.podCidrs
    if (this.#isNodeSettled) {
      if (!sameList(before, nodeIps))
        log.info('NodeIPs changed for the node', {
          node: nodeName,
          newNodeIPs: orNull(nodeIps),
          oldNodeIPs: orNull(before),
        })
      if (lackedPodCidrs && !this.#lacksPodCidrs) this.#settle()
    } else if (nodeIps.length > 0) {
      log.info('Successfully retrieved NodeIPs', { NodeIPs: nodeIps })
      this.#settle()
    }
  }

  /** The wait has ended: the proxy continues as kube-proxy does, which then uses 127.0.0.1 as the node's address. */
  #giveUp(): void {
    const { log, nodeName } = this.#options
    log.error(`Timed out waiting for node to ${this.#nodeLacks}`, { node: nodeName })
    if (!this.#lacksPodCidrs)
      log.info("Can't determine this node's IP; if the name is wrong, please set the --hostname-override flag", {
        node: nodeName,
      })
    this.#settle()
  }

  #settle(): void {
    const { configuration, support, log, listener } = this.#options
    clearTimeout(this.#timer)
    const isFirst = !this.#isNodeSettled
    this.#isNodeSettled = true
    if (this.#lacksPodCidrs) this.#awaitPodCidrs()
    if (isFirst) {
      const error = logNode({ configuration, support, nodeIps: this.#nodeIps, podCidrs: this.#podCidrs, log })
      if (error !== undefined) listener.failed(error)
    }
    this.#report()
  }

  #awaitPodCidrs(): void {
    const { nodeName, log, listener } = this.#options
    const awaited = (): string =>
      this.#node === undefined ? `node "${nodeName}" to exist` : `PodCIDR allocation on node "${nodeName}"`
    log.info(`Waiting for ${awaited()}; nothing is written until then`, { timeout: seconds(this.#waits.podCidrsMs) })
    this.#wait(this.#waits.podCidrsMs, () =>
      listener.failed(new CodedError('node-timeout', `timeout waiting for ${awaited()}`)),
    )
  }
}

/** `30s` */
function seconds(milliseconds: number): string {
  return `${milliseconds / 1000}s`
}

/** The node's IPs as kube-proxy counts them: the first, and the first of the other family. */
function firstOfEachFamily(addresses: readonly string[]): readonly string[] {
  const [first] = addresses
  if (first === undefined) return []
  const second = addresses.find((address) => familyOf(address) !== familyOf(first))
  return second === undefined ? [first] : [first, second]
}

/** Go prints a list that was never made as null. */
function orNull(list: readonly string[]): readonly string[] | null {
  return list.length === 0 ? null : list
}
