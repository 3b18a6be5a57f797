/**
 * Builds the NodeContext from the Node object, the host's addresses and the configuration. After the Node was deleted the last known
 * one is used, as in kube-proxy, so that no node port is lost with it.
 */
import type { Problem } from '../values/errors.ts'
import { type InterfaceAddress, localAddressesOf, nodePortAddressesOf } from './node-addresses.ts'
import { type NodeContext, nodeIpsOf, type NodeLabels } from './node-context.ts'
import type { Node } from './objects.ts'
import type { VirtualIpRule } from './virtual-ips.ts'

export interface NodeSettings {
  readonly nodeName: string
  /** Canonical; '' = none. */
  readonly bindAddress: string
  /** Returns the current value: CIDRs and NODE_PORT_WORDS; empty = every address of the node. */
  readonly nodePortAddresses: () => readonly string[]
}

export class NodeState {
  readonly #settings: NodeSettings
  #node: Node | undefined
  #addresses: readonly InterfaceAddress[] = []
  #virtualIps: VirtualIpRule | undefined
  #nodeLabels: NodeLabels | undefined

  constructor(settings: NodeSettings) {
    this.#settings = settings
  }

  /** The last known Node with our name; undefined before the first one. */
  get node(): Node | undefined {
    return this.#node
  }

  setNode(node: Node | undefined): void {
    if (node !== undefined && node.name === this.#settings.nodeName) this.#node = node
  }

  /** All addresses of all interfaces of the host. */
  setAddresses(addresses: readonly InterfaceAddress[]): void {
    this.#addresses = addresses
  }

  setVirtualIps(rule: VirtualIpRule): void {
    this.#virtualIps = rule
  }

  /** @param labels undefined: not known */
  setNodeLabels(labels: NodeLabels | undefined): void {
    this.#nodeLabels = labels
  }

  /** The current context, and problems with the configuration that it is built from. */
  context(): { readonly context: NodeContext; readonly problems: readonly Problem[] } {
    const { nodeName, bindAddress, nodePortAddresses } = this.#settings
    const nodeIps = nodeIpsOf(this.#node, bindAddress)
    const nodePorts = nodePortAddressesOf(nodePortAddresses(), this.#addresses, nodeIps)
    return {
      context: {
        nodeName,
        zone: this.#node?.zone,
        nodeIps,
        localAddresses: localAddressesOf(this.#addresses),
        nodePortAddresses: nodePorts.addresses,
        ...(this.#virtualIps === undefined ? {} : { virtualIps: this.#virtualIps }),
        ...(this.#nodeLabels === undefined ? {} : { nodeLabels: this.#nodeLabels }),
      },
      problems: nodePorts.problems,
    }
  }
}
