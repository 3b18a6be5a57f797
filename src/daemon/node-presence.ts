/**
 * The Node object of this proxy as operators see it: how long it is waited for, what is said when it appears, changes or is
 * deleted, and when the process must end because of it.
 * Nothing may be removed while the Node is awaited. After the wait the proxy goes on as kube-proxy does, so that a wrong
 * --hostname-override leaves no old Service behind.
 */
import { sameList } from '../values/lists.ts'
import type { DetectLocalMode } from '../config/types.ts'
import type { Node, ObjectChange } from '../service/objects.ts'
import { familyOf } from '../values/address.ts'
import { CodedError } from '../values/errors.ts'
import type { Log } from '../values/log.ts'

/** In milliseconds; tests shorten them. */
export interface NodeWaits {
  /** From the first list to a Node with addresses; 0: what is not in the list is not waited for. kube-proxy: 30,000. */
  readonly addressesMs: number
  /** In NodeCIDR mode, from there to the Node and its pod CIDRs. kube-proxy: 300,000. */
  readonly podCidrsMs: number
}

export interface NodePresenceOptions {
  readonly nodeName: string
  readonly detectLocalMode: DetectLocalMode
  readonly log: Log
  readonly waits?: NodeWaits
  /** False: a source without an API server, where nobody makes the Node; it counts if it is there. Default true. */
  readonly needsNode?: boolean | undefined
  /** `isSettled` or `mustHold` is another one now. */
  readonly onChange: () => void
  /** The Node is known, with these IPs, or was waited for in vain (none). Called once. */
  readonly onFirst: (nodeIps: readonly string[], podCidrs: readonly string[]) => void
  /** The process must end, for this reason. Called at most once. */
  readonly onFatal: (error: CodedError) => void
}

const WAITS: NodeWaits = { addressesMs: 30_000, podCidrsMs: 300_000 }

export class NodePresence {
  readonly #options: NodePresenceOptions
  readonly #waits: NodeWaits
  #node: Node | undefined
  #nodeIps: readonly string[] = []
  #podCidrs: readonly string[] = []
  #isListed = false
  #isSettled = false
  #timer: NodeJS.Timeout | undefined

  constructor(options: NodePresenceOptions) {
    this.#options = options
    this.#waits = options.waits ?? WAITS
  }

  /** The Node and its IPs are known, or were waited for long enough: what nothing wants may go. */
  get isSettled(): boolean {
    return this.#isSettled && !this.mustHold
  }

  /** In NodeCIDR mode nothing may be written before the pod CIDRs are known: without them nothing tells local traffic. */
  get mustHold(): boolean {
    return this.#options.detectLocalMode === 'NodeCIDR' && this.#podCidrs.length === 0
  }

  /** Takes the Node object in, if it is among these. */
  apply(changes: readonly ObjectChange[]): void {
    const { nodeName, log } = this.#options
    for (const { kind, key, value } of changes) {
      if (kind !== 'nodes' || key !== nodeName) continue
      if (value === undefined && this.#node !== undefined) log.info('Node is being deleted', { node: nodeName })
      this.#node = value
      if (value !== undefined && this.#isListed) this.#changed(value)
    }
  }

  /** Every Node was listed: it is known by now, or the wait begins. */
  listed(): void {
    this.#isListed = true
    if (this.#node !== undefined) this.#changed(this.#node)
    if (this.#isSettled) return
    if (this.#options.needsNode === false) this.#goOn()
    else if (this.#waits.addressesMs === 0) this.#giveUp()
    else {
      const { log, nodeName } = this.#options
      log.info(`Waiting for node to ${this.#missing}`, { node: nodeName, timeout: seconds(this.#waits.addressesMs) })
      this.#timer = setTimeout(() => this.#giveUp(), this.#waits.addressesMs)
    }
  }

  close(): void {
    clearTimeout(this.#timer)
  }

  #changed(node: Node): void {
    const { log, nodeName, onFatal } = this.#options
    const before = this.#nodeIps
    const nodeIps = firstOfEachFamily(node.addresses)
    this.#nodeIps = nodeIps
    if (this.#podCidrs.length > 0 && node.podCidrs.length > 0 && !sameList(this.#podCidrs, node.podCidrs)) {
      const fields = { node: nodeName, newPodCIDRs: node.podCidrs, oldPodCIDRs: this.#podCidrs }
      if (this.#options.detectLocalMode === 'NodeCIDR') {
        log.info('PodCIDRs changed for the node', fields)
        onFatal(new CodedError('pod-cidrs-changed', 'PodCIDRs changed for the node'))
        return
      }
    }
    const held = this.mustHold
    if (node.podCidrs.length > 0) this.#podCidrs = node.podCidrs
    if (this.#isSettled) {
      if (!sameList(before, nodeIps))
        log.info('NodeIPs changed for the node', {
          node: nodeName,
          newNodeIPs: orNull(nodeIps),
          oldNodeIPs: orNull(before),
        })
      if (held && !this.mustHold) this.#settle()
    } else if (nodeIps.length > 0) {
      log.info('Successfully retrieved NodeIPs', { NodeIPs: nodeIps })
      this.#settle()
    }
  }

  /** What the Node has to do before its addresses are known. */
  get #missing(): string {
    return this.#node === undefined ? 'exist' : 'be assigned IPs'
  }

  /** Nobody will make the Node, or give it addresses. */
  #goOn(): void {
    const { log, nodeName } = this.#options
    const what = this.#node === undefined ? 'Node object of this name' : 'addresses of the Node'
    log.info(`The manifests have no ${what}; going on without`, { node: nodeName })
    this.#settle()
  }

  /** From now on as kube-proxy goes on, which takes 127.0.0.1 for the node's address then. */
  #giveUp(): void {
    const { log, nodeName } = this.#options
    log.error(`Timed out waiting for node to ${this.#missing}`, { node: nodeName })
    if (!this.mustHold)
      log.info("Can't determine this node's IP; if the name is wrong, please set the --hostname-override flag", {
        node: nodeName,
      })
    this.#settle()
  }

  #settle(): void {
    clearTimeout(this.#timer)
    const isFirst = !this.#isSettled
    this.#isSettled = true
    this.#waitForPodCidrs()
    if (isFirst) this.#options.onFirst(this.#nodeIps, this.#podCidrs)
    this.#options.onChange()
  }

  #waitForPodCidrs(): void {
    clearTimeout(this.#timer)
    if (!this.mustHold) return
    const { nodeName, log, onFatal } = this.#options
    const awaited = (): string =>
      this.#node === undefined ? `node "${nodeName}" to exist` : `PodCIDR allocation on node "${nodeName}"`
    log.info(`Waiting for ${awaited()}; nothing is written before`, { timeout: seconds(this.#waits.podCidrsMs) })
    this.#timer = setTimeout(
      () => onFatal(new CodedError('node-timeout', `timeout waiting for ${awaited()}`)),
      this.#waits.podCidrsMs,
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
