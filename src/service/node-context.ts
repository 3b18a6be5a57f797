/**
 * What rendering needs to know of this node: one small immutable value, and which of its fields an owner read.
 * What could break: whatever a pure function of this folder reads here must show in the READS_* bits it returns,
 * or a change of that field leaves the owner's kernel state as it was.
 */
import { sameList } from '../values/lists.ts'
import { familyOf } from '../values/address.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { Node } from './objects.ts'
import type { VirtualIpRule } from './virtual-ips.ts'

/** The node's own IP of each family it has one of. */
export type NodeIps = { readonly [family in IpFamily]?: string }

export interface NodeContext {
  /** Name of the Node object; the same for the life of the process, so no bit stands for it. */
  readonly nodeName: string
  /** Label topology.kubernetes.io/zone, '' when the Node has none; undefined while the Node object is unknown. */
  readonly zone: string | undefined
  readonly nodeIps: NodeIps
  /** Addresses of the node's interfaces but kube-ipvs0, without loopback and IPv6 link-local ones: never bound by us. */
  readonly localAddresses: ReadonlySet<string>
  /** Where node ports answer, sorted; empty for none. */
  readonly nodePortAddresses: Readonly<Record<IpFamily, readonly string[]>>
  /** What externalIPs and load-balancer addresses must keep to; absent: nothing. */
  readonly virtualIps?: VirtualIpRule
}

export const READS_ZONE = 1
export const READS_NODE_IPS = 2
export const READS_LOCAL_ADDRESSES = 4
export const READS_NODE_PORT_ADDRESSES = 8
export const READS_VIRTUAL_IPS = 16
export const READS_ALL = 31

/**
 * Node IP of each family: the first of the Node's addresses (InternalIP before ExternalIP, the order of Node.addresses).
 * `bindAddress`, canonical, replaces that of its family unless it is unspecified (0.0.0.0, ::) or ''.
 */
export function nodeIpsOf(node: Node | undefined, bindAddress: string): NodeIps {
  const ips: { [family in IpFamily]?: string } = {}
  for (const address of node?.addresses ?? []) ips[familyOf(address)] ??= address
  if (bindAddress !== '' && bindAddress !== '0.0.0.0' && bindAddress !== '::') ips[familyOf(bindAddress)] = bindAddress
  return ips
}

/** READS_* bits of the fields that differ between two contexts, by content. */
export function changedFields(before: NodeContext, after: NodeContext): number {
  if (before === after) return 0
  let changed = 0
  if (before.zone !== after.zone) changed |= READS_ZONE
  if (before.nodeIps.IPv4 !== after.nodeIps.IPv4 || before.nodeIps.IPv6 !== after.nodeIps.IPv6) {
    changed |= READS_NODE_IPS
  }
  if (!sameSet(before.localAddresses, after.localAddresses)) changed |= READS_LOCAL_ADDRESSES
  const [ports, otherPorts] = [before.nodePortAddresses, after.nodePortAddresses]
  if (!sameList(ports.IPv4, otherPorts.IPv4) || !sameList(ports.IPv6, otherPorts.IPv6)) {
    changed |= READS_NODE_PORT_ADDRESSES
  }
  if (before.virtualIps !== after.virtualIps) changed |= READS_VIRTUAL_IPS
  return changed
}

function sameSet(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
  if (a === b) return true
  if (a.size !== b.size) return false
  for (const address of a) if (!b.has(address)) return false
  return true
}
