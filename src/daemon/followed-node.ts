/**
 * This node as the proxy sees it: the Node object, the host's addresses and the configuration, followed as they change.
 * What could break: nobody may hear of a context before the first Node and the first addresses were taken in.
 */
import type { KubeProxyConfiguration } from '../config/types.ts'
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import { InterfaceAddresses } from '../node/interface-addresses.ts'
import type { InterfaceAddress } from '../service/node-addresses.ts'
import type { NodeContext } from '../service/node-context.ts'
import { NodeState } from '../service/node-state.ts'
import type { ObjectChange } from '../service/objects.ts'
import type { KeptAddresses } from '../service/virtual-ips.ts'
import type { Problem } from '../values/errors.ts'
import type { Log } from '../values/log.ts'

/** The node at one moment. */
export interface NodeView {
  readonly context: NodeContext
  /** What is wrong with `nodePortAddresses` on this node. */
  readonly problems: readonly Problem[]
  /** Of all interfaces but kube-ipvs0. */
  readonly addresses: readonly InterfaceAddress[]
  readonly podCidrs: readonly string[]
}

export interface FollowedNodeOptions {
  /** As it is in force now. */
  readonly configuration: () => KubeProxyConfiguration
  readonly nodeName: string
  readonly rtnetlink: RtnetlinkConnection
  readonly log: Log
  /** Absent: Services may have any externalIPs and load-balancer addresses. */
  readonly virtualIps?: KeptAddresses | undefined
  /** Hears of the node whenever something about it may have changed. */
  readonly onChange: (node: NodeView) => void
  /** Milliseconds on a clock that never goes back. */
  readonly now: () => number
  readonly signal: AbortSignal
}

export class FollowedNode {
  readonly #onChange: (node: NodeView) => void
  readonly #state: NodeState
  readonly #addresses: InterfaceAddresses
  readonly #virtualIps: KeptAddresses | undefined

  constructor(options: FollowedNodeOptions) {
    const { configuration, nodeName, rtnetlink, log, onChange, now, signal } = options
    const { bindAddress } = configuration()
    this.#onChange = onChange
    this.#state = new NodeState({
      nodeName,
      bindAddress,
      nodePortAddresses: () => configuration().nodePortAddresses,
    })
    this.#virtualIps = options.virtualIps
    if (this.#virtualIps !== undefined) this.#state.setVirtualIps(this.#virtualIps.rule)
    this.#addresses = new InterfaceAddresses({
      rtnetlink,
      now,
      onChange: () => this.tell(),
      onError: (error) => log.warn('Cannot read the addresses of this node', { error }),
      signal,
    })
  }

  get view(): NodeView {
    const addresses = this.#addresses.current
    this.#state.setAddresses(addresses)
    return { ...this.#state.context(), addresses, podCidrs: this.#state.node?.podCidrs ?? [] }
  }

  /** Takes the Node object in, if it is among these, and what no Service may take the addresses of. */
  apply(changes: readonly ObjectChange[]): void {
    let seen = false
    for (const change of changes) {
      if (change.kind === 'nodes') {
        this.#state.setNode(change.value)
        seen = true
      } else if (this.#virtualIps?.apply(change) === true) {
        this.#state.setVirtualIps(this.#virtualIps.rule)
        seen = true
      }
    }
    if (seen) this.tell()
  }

  /** Reads the host's addresses. Rejects when the kernel cannot be read. */
  readAddresses(): Promise<void> {
    return this.#addresses.read()
  }

  /** The kernel announced a change of addresses or links. */
  addressesChanged(): void {
    this.#addresses.changed()
  }

  tell(): void {
    this.#onChange(this.view)
  }

  close(): void {
    this.#addresses.close()
  }
}
