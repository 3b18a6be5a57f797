/**
 * Which externalIPs and load-balancer addresses a Service may have on this node (CVE-2020-8554).
 * Every user who can create a Service can write any externalIPs and so intercept the node's own
 * traffic to them; load-balancer addresses are in the status, which controllers write. Neither may
 * take an address away from this node that it needs to reach the API server or other nodes.
 */
import { familyOf, specialAddress } from '../values/address.ts'
import { type Cidr, contains } from '../values/cidr.ts'
import type { Problem, ProblemList } from '../values/errors.ts'
import { firstNames } from '../values/lists.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { Service } from './objects.ts'

/** Which addresses are permitted. The same object as long as nothing in it changes. */
export interface VirtualIpRule {
  /** kubeIPVS.allowedExternalIPs; undefined: every address. */
  readonly externalIps: readonly Cidr[] | undefined
  /** kubeIPVS.allowedLoadBalancerIPs; undefined: every address. */
  readonly loadBalancerIps: readonly Cidr[] | undefined
  /**
   * Addresses, besides those of this node, that externalIPs must not contain, with the name of
   * their owner: `the API server`. undefined: externalIPs may contain them, and addresses of this
   * node (kubeIPVS.allowProtectedExternalIPs).
   */
  readonly protected: ReadonlyMap<string, string> | undefined
  /** Ranges of addresses that externalIPs must not contain either, with the name of their owner: `Pods`. */
  readonly protectedRanges: readonly { readonly range: Cidr; readonly owner: string }[]
  /** Addresses at which this node reaches the API server, each with its ports there. No Service may make them local. */
  readonly apiServer: ReadonlyMap<string, ReadonlySet<number>>
  /**
   * Addresses of other hosts, as the network of this node shows them: gateways of its routes, and
   * peers of its tunnels.
   */
  readonly hosts: ReadonlySet<string>
}

/** The fields of NodeContext that decide. */
interface Node {
  readonly virtualIps?: VirtualIpRule
  readonly localAddresses: ReadonlySet<string>
  readonly nodeIps: { readonly [family in IpFamily]?: string }
  readonly nodeAddresses?: readonly string[]
}

/** How the mode treats the addresses that Services have. */
export interface AddressUse {
  /** They become addresses of this node with all ports, so that no other host with that address can be reached. */
  readonly binds: boolean
  /** The Service, `namespace/name`, that has a cluster IP; undefined for no cluster IP. */
  readonly clusterIpOwner: (address: string) => string | undefined
}

const LOAD_BALANCER = 'status.loadBalancer.ingress'
const EXTERNAL = 'spec.externalIPs'

/** Returns the addresses in `status.loadBalancer.ingress` that this node serves, and reports the others. */
export function permittedVips(
  service: Service,
  addresses: readonly string[],
  node: Node,
  { binds }: Pick<AddressUse, 'binds'>,
  problems: ProblemList,
): readonly string[] {
  const { virtualIps: rule } = node
  if (rule === undefined || addresses.length === 0) return addresses
  const nodes = familiesOfNodes(addresses, node)
  const isOther = (address: string): boolean =>
    isOtherHost(address, rule, node) || (nodes.has(familyOf(address)) && !isThisNodes(address, node))
  const proxied: string[] = []
  const permitted = addresses.filter((address) => {
    const reason =
      (LOCALHOST.has(address) ? 'it is localhost' : undefined) ??
      (rule.loadBalancerIps === undefined || isIn(rule.loadBalancerIps, address)
        ? undefined
        : `${NOT_IN_LIST}allowedLoadBalancerIPs`) ??
      takesApiServer(service, address, rule, node, binds)
    if (reason !== undefined) problems.add(refusal(service, LOAD_BALANCER, address, reason))
    else if (binds && isOther(address)) proxied.push(address)
    else return true
    return false
  })
  if (proxied.length > 0) problems.add(leftToHosts(service, LOAD_BALANCER, proxied))
  return permitted
}

/** Returns the addresses in `spec.externalIPs` that this node serves, and reports the others. */
export function permittedExternalIps(
  service: Service,
  addresses: readonly string[],
  permittedVips: readonly string[],
  node: Node,
  use: AddressUse,
  problems: ProblemList,
): readonly string[] {
  const { virtualIps: rule } = node
  if (rule === undefined || addresses.length === 0) return addresses
  const vips = new Set(permittedVips)
  const clusterIps = Object.values(service.clusterIps)
  const proxied: string[] = []
  const permitted = addresses.filter((address) => {
    // An address that the Service has in another role takes no traffic from others.
    const isOwn = vips.has(address) || clusterIps.includes(address)
    const owner = isOwn || rule.protected === undefined ? undefined : ownerOf(address, service, rule, node, use)
    const special = specialAddress(address)
    const reason =
      (special === undefined ? undefined : `it is ${special}`) ??
      (owner === undefined ? undefined : `it is ${owner}, which kubeIPVS.allowProtectedExternalIPs would allow`) ??
      (rule.externalIps === undefined || isIn(rule.externalIps, address)
        ? undefined
        : `${NOT_IN_LIST}allowedExternalIPs`) ??
      (isOwn ? undefined : takesApiServer(service, address, rule, node, use.binds))
    if (reason !== undefined) problems.add(refusal(service, EXTERNAL, address, reason))
    else if (use.binds && !isOwn && isOtherHost(address, rule, node)) proxied.push(address)
    else return true
    return false
  })
  if (proxied.length > 0) problems.add(leftToHosts(service, EXTERNAL, proxied))
  return permitted
}

/** As a virtual IP it would take the connections of this node's programs to themselves. */
const LOCALHOST: ReadonlySet<string> = new Set(['127.0.0.1', '::1'])
const NOT_IN_LIST = 'it is in no range of kubeIPVS.'

/** Who has an address that no externalIP may be: `an address of the API server`. */
function ownerOf(
  address: string,
  service: Service,
  rule: VirtualIpRule,
  node: Node,
  { clusterIpOwner }: AddressUse,
): string | undefined {
  const known = rule.protected?.get(address)
  if (known !== undefined) return `an address of ${known}`
  if (isThisNodes(address, node)) return 'an address of this node'
  const owner = clusterIpOwner(address)
  if (owner !== undefined && owner !== `${service.namespace}/${service.name}`) return `the cluster IP of ${owner}`
  if (isOtherHost(address, rule, node)) return 'an address of another node or router'
  const range = rule.protectedRanges.find((one) => contains(one.range, address))
  return range === undefined ? undefined : `an address of ${range.owner}`
}

/**
 * Why a Service must not have an address at which this node reaches the API server; undefined when
 * it may. An address that this node has itself is not bound, so there only a port of the API server
 * is taken.
 */
function takesApiServer(
  { ports: own }: Service,
  address: string,
  { apiServer }: VirtualIpRule,
  { localAddresses }: Node,
  binds: boolean,
): string | undefined {
  const ports = apiServer.get(address)
  if (ports === undefined) return undefined
  const isTaken = binds && !localAddresses.has(address)
  if (!isTaken && !own.some(({ port }) => ports.has(port))) return undefined
  return 'it is an address of the API server, which this node could not reach any more'
}

/**
 * Whether the network of this node shows that another host has the address, so that this node must
 * not make it its own.
 */
function isOtherHost(address: string, { hosts }: VirtualIpRule, node: Node): boolean {
  return hosts.has(address) && !isThisNodes(address, node)
}

/**
 * The families in which the status of a load balancer is a list of nodes, as ServiceLB of k3s
 * writes it: an address of this node's Node object is among them. What users write in externalIPs
 * may be a mixture, so there this says nothing.
 */
function familiesOfNodes(addresses: readonly string[], node: Node): ReadonlySet<IpFamily> {
  return new Set(addresses.filter((address) => isOfNodeObject(address, node)).map(familyOf))
}

function isOfNodeObject(address: string, { nodeIps, nodeAddresses = [] }: Node): boolean {
  return nodeIps[familyOf(address)] === address || nodeAddresses.includes(address)
}

function isThisNodes(address: string, node: Node): boolean {
  return node.localAddresses.has(address) || isOfNodeObject(address, node)
}

function isIn(ranges: readonly Cidr[], address: string): boolean {
  return ranges.some((range) => contains(range, address))
}

function refusal({ namespace, name }: Service, field: string, address: string, reason: string): Problem {
  const subject = `service ${namespace}/${name}`
  return { code: 'virtual-ip-refused', about: 'object', subject, field, message: `${address} is refused: ${reason}` }
}

/** Addresses that a problem names. */
const NAMED = 3

function leftToHosts({ namespace, name }: Service, field: string, addresses: readonly string[]): Problem {
  const shown = firstNames(addresses, NAMED)
  const [what, whom] =
    addresses.length === 1 ? ['is an address of another host', 'it'] : ['are addresses of other hosts', 'them']
  return {
    code: 'virtual-ip-of-host',
    about: 'object',
    subject: `service ${namespace}/${name}`,
    field,
    message: `${shown} ${what}, and left to ${whom} as with ipMode Proxy`,
  }
}
