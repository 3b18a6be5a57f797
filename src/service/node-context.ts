/**
 * What frontends depend on of this node: one small immutable value. Every field that a function of
 * this folder reads must be in the READS_* bits that the function returns, or a change of the field
 * does not reach the kernel.
 */
import { sameList } from '../values/lists.ts'
import { familyOf, parseAddressSloppy } from '../values/address.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { Node } from './objects.ts'
import type { VirtualIpRule } from './virtual-ips.ts'

/** The node's own IP of each family it has one of. */
export type NodeIps = { readonly [family in IpFamily]?: string }

/** The part of NodeContext that the choice of endpoints and their weights depend on. */
export interface NodePlace {
  /** Name of the Node object. It does not change during the life of the process, so it has no READS_* bit. */
  readonly nodeName: string
  /** Label topology.kubernetes.io/zone, '' when the Node has none; undefined while the Node object is unknown. */
  readonly zone: string | undefined
  /** Labels of all Nodes; absent while they are not known, or no rule names a label. Compared with `===`. */
  readonly nodeLabels?: NodeLabels
  /**
   * Families in which clients of other hosts can reach no health check port
   * (`localHealthChecksOf`); absent: none. With `nodePortAddresses`.
   */
  readonly localHealthChecks?: readonly IpFamily[]
}

/** Of each Node, by its name, the labels that rules of Services name; a Node without any may be missing. */
export type NodeLabels = ReadonlyMap<string, Readonly<Record<string, string>>>

export interface NodeContext extends NodePlace {
  readonly nodeIps: NodeIps
  /** All addresses of the Node object; absent: none are known. With `nodeIps` in READS_NODE_IPS. */
  readonly nodeAddresses?: readonly string[]
  /**
   * Addresses of the node's interfaces except kube-ipvs0, without loopback and IPv6 link-local
   * ones. We never bind them.
   */
  readonly localAddresses: ReadonlySet<string>
  /** Addresses at which node ports answer, sorted; empty when they answer nowhere. */
  readonly nodePortAddresses: Readonly<Record<IpFamily, readonly string[]>>
  /** Which externalIPs and load-balancer addresses are permitted; absent: all. */
  readonly virtualIps?: VirtualIpRule
}

export const READS_ZONE = 1
export const READS_NODE_IPS = 2
export const READS_LOCAL_ADDRESSES = 4
export const READS_NODE_PORT_ADDRESSES = 8
export const READS_VIRTUAL_IPS = 16
export const READS_NODE_LABELS = 32
export const READS_ALL = 63

/**
 * The node IP of each family: the first address of the family in Node.addresses (InternalIP before
 * ExternalIP). `bindAddress`, as the configuration has it, replaces the one of its family unless it
 * is unspecified (0.0.0.0, ::) or ''.
 */
export function nodeIpsOf(node: Pick<Node, 'addresses'> | undefined, bindAddress: string): NodeIps {
  const ips: { [family in IpFamily]?: string } = {}
  for (const address of node?.addresses ?? []) ips[familyOf(address)] ??= address
  const bound = parseAddressSloppy(bindAddress)
  if (bound !== undefined && bound !== '0.0.0.0' && bound !== '::') ips[familyOf(bound)] = bound
  return ips
}

const NO_ADDRESSES: readonly string[] = []
const NO_FAMILIES: readonly IpFamily[] = []

/** READS_* bits of the fields that differ between two contexts, by content. */
export function changedFields(before: NodeContext, after: NodeContext): number {
  if (before === after) return 0
  let changed = 0
  if (before.zone !== after.zone) changed |= READS_ZONE
  if (
    before.nodeIps.IPv4 !== after.nodeIps.IPv4 ||
    before.nodeIps.IPv6 !== after.nodeIps.IPv6 ||
    !sameList(before.nodeAddresses ?? NO_ADDRESSES, after.nodeAddresses ?? NO_ADDRESSES)
  ) {
    changed |= READS_NODE_IPS
  }
  if (!sameSet(before.localAddresses, after.localAddresses)) changed |= READS_LOCAL_ADDRESSES
  const [ports, otherPorts] = [before.nodePortAddresses, after.nodePortAddresses]
  if (
    !sameList(ports.IPv4, otherPorts.IPv4) ||
    !sameList(ports.IPv6, otherPorts.IPv6) ||
    !sameList(before.localHealthChecks ?? NO_FAMILIES, after.localHealthChecks ?? NO_FAMILIES)
  ) {
    changed |= READS_NODE_PORT_ADDRESSES
  }
  if (before.virtualIps !== after.virtualIps) changed |= READS_VIRTUAL_IPS
  if (before.nodeLabels !== after.nodeLabels) changed |= READS_NODE_LABELS
  return changed
}

function sameSet(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
  if (a === b) return true
  if (a.size !== b.size) return false
  for (const address of a) if (!b.has(address)) return false
  return true
}
