/**
 * Which externalIPs and load-balancer addresses a Service may have on this node (CVE-2020-8554). Every user who can create a Service
 * can write any externalIPs and so intercept the node's own traffic to them; load-balancer addresses are in the status, which
 * controllers write. Each has a list of permitted ranges, and externalIPs must not be addresses that the node itself depends on.
 */
import { type Cidr, contains } from '../values/cidr.ts'
import type { ProblemList } from '../values/errors.ts'
import { sameList } from '../values/lists.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { EndpointSlice, ObjectChange, Service } from './objects.ts'

/** Which addresses are permitted. The same object as long as nothing in it changes. */
export interface VirtualIpRule {
  /** kubeIPVS.allowedExternalIPs; undefined: every address. */
  readonly externalIps: readonly Cidr[] | undefined
  /** kubeIPVS.allowedLoadBalancerIPs; undefined: every address. */
  readonly loadBalancerIps: readonly Cidr[] | undefined
  /**
   * Addresses, besides those of this node, that externalIPs must not contain, with the name of their owner: `the API server`.
   * undefined: externalIPs may contain them, and addresses of this node (kubeIPVS.allowProtectedExternalIPs).
   */
  readonly protected: ReadonlyMap<string, string> | undefined
}

/** The fields of NodeContext that decide. */
interface Node {
  readonly virtualIps?: VirtualIpRule
  readonly localAddresses: ReadonlySet<string>
  readonly nodeIps: { readonly [family in IpFamily]?: string }
}

/** Returns the addresses in `status.loadBalancer.ingress` that this node permits, and reports the others. */
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

/** Returns the addresses in `spec.externalIPs` that this node permits, and reports the others. */
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
    // An address that the Service has in another role takes no traffic from others.
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

/** Only objects in these namespaces can change the rule. This check runs for every change. */
const WATCHED_NAMESPACES = /^(?:default|kube-system)\//

/** The rule of this node, updated when the protected addresses change. */
export class VirtualIpGuard {
  /** Protected addresses by the object of the cluster that has them, or by the owner that was passed to `protect`. */
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

  /** Replaces the addresses of one owner. Returns whether the rule changed. */
  protect(owner: string, addresses: readonly string[]): boolean {
    return this.#set(owner, addresses.length === 0 ? undefined : { owner, addresses })
  }

  /** Takes in one change of an object. Returns whether the rule changed. */
  apply(change: ObjectChange): boolean {
    if (!WATCHED_NAMESPACES.test(change.key)) return false
    return this.#set(`${change.kind} ${change.key}`, protectedByObject(change))
  }

  #set(key: string, entry: { readonly addresses: readonly string[]; readonly owner: string } | undefined): boolean {
    if (this.#rule.protected === undefined) return false
    const before = this.#owners.get(key)
    if (entry === undefined) {
      if (!this.#owners.delete(key)) return false
    } else {
      if (before !== undefined && sameList(before.addresses, entry.addresses)) return false
      this.#owners.set(key, entry)
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
 * Only the slice that the API server itself writes, found by its name: if the label decided, every user who can write slices in that
 * namespace could make us refuse any address.
 */
function ofSlice({ namespace, name, endpoints }: EndpointSlice) {
  const isApiServer = namespace === 'default' && name === 'kubernetes'
  return isApiServer ? { addresses: endpoints.map(({ address }) => address), owner: API_SERVER } : undefined
}
