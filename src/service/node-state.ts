/**
 * Builds the NodeContext from the Node object, the host's addresses and the configuration. After
 * the Node was deleted the last known one is used, so that no node port is lost with it.
 */
import type { Problem } from '../values/errors.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import {
  type InterfaceAddress,
  localAddressesOf,
  localHealthChecksOf,
  nodePortAddressesOf,
  withoutPrimaryProblem,
} from './node-addresses.ts'
import { type NodeContext, nodeIpsOf, type NodeLabels } from './node-context.ts'
import type { Node, Service } from './objects.ts'
import type { VirtualIpRule } from './virtual-ips.ts'

export interface NodeSettings {
  readonly nodeName: string
  /** As the configuration has it; '' = none. */
  readonly bindAddress: string
  /** Returns the current value: CIDRs and NODE_PORT_WORDS; empty = every address of the node. */
  readonly nodePortAddresses: () => readonly string[]
}

export class NodeState {
  readonly #settings: NodeSettings
  readonly #nodePortServices = new NodePortServices()
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
    if (node === undefined || node.name !== this.#settings.nodeName) return
    this.#node = withKnown(node, this.#node)
  }

  /** @param service undefined: it is gone. Returns whether the problems of `context` may have changed. */
  setService(key: string, service: Service | undefined): boolean {
    return this.#nodePortServices.set(key, service) && this.#settings.nodePortAddresses().includes('primary')
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
    const localHealthChecks = localHealthChecksOf(nodePortAddresses(), this.#addresses, nodeIps)
    return {
      context: {
        nodeName,
        zone: this.#node?.zone,
        nodeIps,
        ...(this.#node === undefined ? {} : { nodeAddresses: this.#node.addresses }),
        localAddresses: localAddressesOf(this.#addresses),
        nodePortAddresses: nodePorts.addresses,
        ...(localHealthChecks.length === 0 ? {} : { localHealthChecks }),
        ...(this.#virtualIps === undefined ? {} : { virtualIps: this.#virtualIps }),
        ...(this.#nodeLabels === undefined ? {} : { nodeLabels: this.#nodeLabels }),
      },
      problems: [
        ...nodePorts.problems,
        ...nodePorts.withoutPrimary
          .filter((family) => this.#nodePortServices.has(family))
          .map((family) => withoutPrimaryProblem(family)),
      ],
    }
  }
}

/**
 * A Node that lists no address, as for a moment after a failure of a cloud provider, or no podCIDR,
 * as after it was deleted and registered again, keeps those that it had.
 */
export function withKnown(node: Node, known: Node | undefined): Node {
  if (known === undefined || (node.addresses.length > 0 && node.podCidrs.length > 0)) return node
  return {
    ...node,
    addresses: node.addresses.length > 0 ? node.addresses : known.addresses,
    podCidrs: node.podCidrs.length > 0 ? node.podCidrs : known.podCidrs,
  }
}

const NONE: readonly IpFamily[] = []

/** In which IP families Services have node ports, as Services come, change and go. */
class NodePortServices {
  /** Families by Service, without those that have no node port: nearly all. */
  readonly #families = new Map<string, readonly IpFamily[]>()
  readonly #counts: Record<IpFamily, number> = { IPv4: 0, IPv6: 0 }

  has(family: IpFamily): boolean {
    return this.#counts[family] > 0
  }

  /** @param service undefined: it is gone. Returns whether `has` has changed for a family. */
  set(key: string, service: Service | undefined): boolean {
    const families = familiesOf(service)
    const before = this.#families.get(key) ?? NONE
    const had = IP_FAMILIES.filter((family) => this.has(family))
    for (const family of before) this.#counts[family]--
    for (const family of families) this.#counts[family]++
    if (families.length === 0) this.#families.delete(key)
    else this.#families.set(key, families)
    return IP_FAMILIES.some((family) => had.includes(family) !== this.has(family))
  }
}

function familiesOf(service: Service | undefined): readonly IpFamily[] {
  if (service === undefined || service.ports.every(({ nodePort }) => nodePort === 0)) return NONE
  return IP_FAMILIES.filter((family) => service.clusterIps[family] !== undefined)
}
