/**
 * Which externalIPs and load-balancer addresses a Service may have on this node (CVE-2020-8554). Anybody who may write a Service may
 * write any externalIPs, and draws the node's own traffic to them to himself; load-balancer addresses are in the status, which
 * controllers write. Each has a list of ranges, and externalIPs also may not be addresses that the node itself lives by.
 */
import { type Cidr, contains } from '../values/cidr.ts'
import type { ProblemList } from '../values/errors.ts'
import { sameList } from '../values/lists.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { EndpointSlice, ObjectChange, Service } from './objects.ts'

/** What addresses must keep to. One value for as long as nothing in it changes. */
export interface VirtualIpRule {
  /** kubeIPVS.allowedExternalIPs; undefined: anywhere. */
  readonly externalIps: readonly Cidr[] | undefined
  /** kubeIPVS.allowedLoadBalancerIPs; undefined: anywhere. */
  readonly loadBalancerIps: readonly Cidr[] | undefined
  /**
   * Addresses that no externalIP may be, beside those of this node, and whose they are: `the API server`. undefined: an externalIP may
   * be any of them, and of this node's too (kubeIPVS.allowProtectedExternalIPs).
   */
  readonly protected: ReadonlyMap<string, string> | undefined
}

/** What of the NodeContext takes part. */
interface Node {
  readonly virtualIps?: VirtualIpRule
  readonly localAddresses: ReadonlySet<string>
  readonly nodeIps: { readonly [family in IpFamily]?: string }
}

/** Those of the addresses in `status.loadBalancer.ingress` that this node permits; the others are reported. */
export function permittedVips(
  service: Service,
  addresses: readonly string[],
  { virtualIps }: Node,
  problems: ProblemList,
): readonly string[] {
  const allowed = virtualIps?.loadBalancerIps
  if (allowed === undefined) return addresses
  return addresses.filter((address) => {
    if (isIn(allowed, address)) return true
    refuse(service, 'status.loadBalancer.ingress', address, `${NOT_IN_LIST}allowedLoadBalancerIPs`, problems)
    return false
  })
}

/** Those of the addresses in `spec.externalIPs` that this node permits; the others are reported. */
export function permittedExternalIps(
  service: Service,
  addresses: readonly string[],
  permittedVips: readonly string[],
  node: Node,
  problems: ProblemList,
): readonly string[] {
  const { virtualIps } = node
  if (virtualIps === undefined || addresses.length === 0) return addresses
  const vips = new Set(permittedVips)
  return addresses.filter((address) => {
    // What the Service has in another role takes nothing from anybody.
    const isOwn = vips.has(address) || Object.values(service.clusterIps).includes(address)
    const reason = (isOwn ? undefined : protectedBy(address, virtualIps, node)) ?? outside(address, virtualIps)
    if (reason !== undefined) refuse(service, 'spec.externalIPs', address, reason, problems)
    return reason === undefined
  })
}

const NOT_IN_LIST = 'it is in no range of kubeIPVS.'

function outside(address: string, { externalIps }: VirtualIpRule): string | undefined {
  return externalIps === undefined || isIn(externalIps, address) ? undefined : `${NOT_IN_LIST}allowedExternalIPs`
}

function protectedBy(address: string, rule: VirtualIpRule, node: Node): string | undefined {
  if (rule.protected === undefined) return undefined
  const isNodes = node.localAddresses.has(address) || Object.values(node.nodeIps).includes(address)
  const owner = rule.protected.get(address) ?? (isNodes ? 'this node' : undefined)
  return owner === undefined
    ? undefined
    : `it is an address of ${owner}, which kubeIPVS.allowProtectedExternalIPs would allow`
}

function isIn(ranges: readonly Cidr[], address: string): boolean {
  return ranges.some((range) => contains(range, address))
}

function refuse(
  { namespace, name }: Service,
  field: string,
  address: string,
  reason: string,
  problems: ProblemList,
): void {
  const subject = `service ${namespace}/${name}`
  problems.add({ code: 'virtual-ip-refused', subject, field, message: `${address} is refused: ${reason}` })
}

const API_SERVER = 'the API server'
const CLUSTER_DNS = 'the resolvers of this cluster'

/** Namespaces whose objects are looked at; every change comes by here. */
const MATTERS = /^(?:default|kube-system)\//

/** The rule of this node, followed as the addresses that it protects change. */
export class VirtualIpGuard {
  /** Addresses by whoever has them: an object of the cluster, or what `protect` was told. */
  readonly #owners = new Map<string, { readonly addresses: readonly string[]; readonly owner: string }>()
  #rule: VirtualIpRule

  /** @param lists absent ones allow everything */
  constructor(lists: Partial<Pick<VirtualIpRule, 'externalIps' | 'loadBalancerIps'>>, allowsProtected: boolean) {
    const { externalIps, loadBalancerIps } = lists
    this.#rule = { externalIps, loadBalancerIps, protected: allowsProtected ? undefined : new Map() }
  }

  get rule(): VirtualIpRule {
    return this.#rule
  }

  /** Takes the addresses of one owner in, in place of those it had. Returns whether the rule is another one now. */
  protect(owner: string, addresses: readonly string[]): boolean {
    return this.#set(owner, addresses.length === 0 ? undefined : { owner, addresses })
  }

  /** Returns whether the rule is another one now. */
  apply(change: ObjectChange): boolean {
    if (!MATTERS.test(change.key)) return false
    return this.#set(`${change.kind} ${change.key}`, protectedByObject(change))
  }

  #set(key: string, stands: { readonly addresses: readonly string[]; readonly owner: string } | undefined): boolean {
    if (this.#rule.protected === undefined) return false
    const before = this.#owners.get(key)
    if (stands === undefined) {
      if (!this.#owners.delete(key)) return false
    } else {
      if (before !== undefined && sameList(before.addresses, stands.addresses)) return false
      this.#owners.set(key, stands)
    }
    const all = new Map<string, string>()
    for (const { addresses, owner } of this.#owners.values()) for (const address of addresses) all.set(address, owner)
    this.#rule = { ...this.#rule, protected: all }
    return true
  }
}

function protectedByObject(
  change: ObjectChange,
): { readonly addresses: readonly string[]; readonly owner: string } | undefined {
  if (change.value === undefined) return undefined
  switch (change.kind) {
    case 'services':
      return ofService(change.value)
    case 'endpointslices':
      return ofSlice(change.value)
    case 'nodes':
      return undefined
  }
}

function ofService({ namespace, name, ports, clusterIps }: Service) {
  const addresses = Object.values(clusterIps)
  if (namespace === 'default' && name === 'kubernetes') return { addresses, owner: API_SERVER }
  const isDns = namespace === 'kube-system' && ports.some(({ port }) => port === 53)
  return isDns ? { addresses, owner: CLUSTER_DNS } : undefined
}

/**
 * Only the slice that the API server writes itself, by its name: with a label of its own anybody who may write slices in that
 * namespace could have any address refused.
 */
function ofSlice({ namespace, name, endpoints }: EndpointSlice) {
  const isApiServer = namespace === 'default' && name === 'kubernetes'
  return isApiServer ? { addresses: endpoints.map(({ address }) => address), owner: API_SERVER } : undefined
}
