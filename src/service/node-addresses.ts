/**
 * Which addresses are the node's own, and at which of them node ports answer. Addresses on
 * kube-ipvs0 belong to Services: if one counted as the node's own, it would be removed from the
 * device, or get node ports.
 */
import { familyOf, isLinkLocal, isLoopback } from '../values/address.ts'
import { type Cidr, contains, parseCidr, parseCidrs } from '../values/cidr.ts'
import type { Problem } from '../values/errors.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import type { NodeIps } from './node-context.ts'
import { ANY_ADDRESS, SERVICE_DEVICE } from '../values/well-known.ts'

/**
 * Words that nodePortAddresses may contain besides CIDRs (kube-proxy 1.37). They mean: the node IPs
 * of the Node object; 127.0.0.0/8 and ::1/128; every address.
 */
export const NODE_PORT_WORDS: readonly string[] = ['primary', 'localhost', 'all']

/** An address as the kernel lists it for an interface. */
export interface InterfaceAddress {
  readonly interfaceName: string
  /** Canonical text, without prefix length. */
  readonly address: string
}

/** Where node ports answer, and problems with the configuration. */
export interface NodePortAddresses {
  readonly addresses: Readonly<Record<IpFamily, readonly string[]>>
  readonly problems: readonly Problem[]
  /**
   * Families in which `primary` alone is configured and the node IP is unknown: a problem only
   * where a Service has a node port.
   */
  readonly withoutPrimary: readonly IpFamily[]
}

function isNodesOwn(address: string): boolean {
  return !isLoopback(address) && !(familyOf(address) === 'IPv6' && isLinkLocal(address))
}

/**
 * The node's own addresses: those of all interfaces except kube-ipvs0, without loopback and IPv6
 * link-local addresses.
 */
export function localAddressesOf(addresses: Iterable<InterfaceAddress>): ReadonlySet<string> {
  const local = new Set<string>()
  for (const { interfaceName, address } of addresses) {
    if (interfaceName !== SERVICE_DEVICE && isNodesOwn(address)) local.add(address)
  }
  return local
}

/**
 * The addresses at which node ports answer, sorted. `configured` is nodePortAddresses of
 * KubeProxyConfiguration: CIDRs and NODE_PORT_WORDS. A family without a CIDR of its own, or with
 * one of length 0, matches all of the node's own addresses. `primary` matches nothing in a family
 * whose node IP is unknown (in kube-proxy without another CIDR of the family: all addresses).
 * Loopback addresses never match.
 */
export function nodePortAddressesOf(
  configured: readonly string[],
  addresses: Iterable<InterfaceAddress>,
  nodeIps: NodeIps,
): NodePortAddresses {
  const candidates = Array.from(addresses).filter(({ interfaceName }) => interfaceName !== SERVICE_DEVICE)
  const problems: Problem[] = []
  const withoutPrimary: IpFamily[] = []
  for (const [index, text] of configured.entries()) {
    if (!NODE_PORT_WORDS.includes(text) && parseCidr(text) === undefined)
      problems.push(problem('node-port-cidr', `[${index}]`, `${JSON.stringify(text)} is no CIDR`))
  }
  const matching = (family: IpFamily): readonly string[] => {
    const ranges = rangesOf(configured, family, nodeIps)
    if (
      ranges !== 'all' &&
      ranges.every(({ address }) => isLoopback(address)) &&
      primaryIs(configured, family, nodeIps) === 'unknown'
    )
      withoutPrimary.push(family)
    const found = new Set<string>()
    for (const { address } of candidates) {
      if (familyOf(address) !== family || isLoopback(address)) continue
      if (ranges === 'all' ? isNodesOwn(address) : ranges.some((range) => contains(range, address))) found.add(address)
    }
    return Array.from(found).sort()
  }
  const [ipv4, ipv6] = IP_FAMILIES.map(matching)
  return { addresses: { IPv4: ipv4 ?? [], IPv6: ipv6 ?? [] }, problems, withoutPrimary }
}

/**
 * The addresses on which health check ports listen, sorted: the node's addresses inside
 * nodePortAddresses, loopback included, or the unspecified address of the family. When nothing
 * matches it is only the node's IP, if it is known and on an interface: without an answer a load
 * balancer would take the whole node out (kube-proxy does not listen then), and the operator
 * permitted no other address.
 */
export function healthCheckAddressesOf(
  configured: readonly string[],
  addresses: Iterable<InterfaceAddress>,
  nodeIps: NodeIps,
): Readonly<Record<IpFamily, readonly string[]>> {
  const candidates = Array.from(addresses).filter(
    // A socket on an IPv6 link-local address would also need an interface.
    ({ interfaceName, address }) => interfaceName !== SERVICE_DEVICE && (isNodesOwn(address) || isLoopback(address)),
  )
  const matching = (family: IpFamily): readonly string[] => {
    const ranges = rangesOf(configured, family, nodeIps)
    if (ranges === 'all') return [ANY_ADDRESS[family]]
    const found = new Set<string>()
    for (const { address } of candidates) if (ranges.some((range) => contains(range, address))) found.add(address)
    if (found.size > 0) return Array.from(found).sort()
    return candidates.some(({ address }) => address === nodeIps[family]) ? [nodeIps[family] ?? ''] : []
  }
  return { IPv4: matching('IPv4'), IPv6: matching('IPv6') }
}

/**
 * Families whose ranges match no node port address, and in which the health check ports listen at
 * most at loopback addresses. There kube-proxy opens the ports to nobody else; where they listen at
 * the node's IP all the same, they stay open. In a family without a range kube-proxy has all
 * addresses, so nothing is closed.
 */
export function localHealthChecksOf(
  configured: readonly string[],
  addresses: Iterable<InterfaceAddress>,
  nodeIps: NodeIps,
): readonly IpFamily[] {
  const known = Array.from(addresses)
  const { addresses: nodePorts } = nodePortAddressesOf(configured, known, nodeIps)
  const listening = healthCheckAddressesOf(configured, known, nodeIps)
  return IP_FAMILIES.filter(
    (family) =>
      nodePorts[family].length === 0 && namesFamily(configured, family, nodeIps) && listening[family].every(isLoopback),
  )
}

/** Where node ports answer in iptables mode, where one rule serves all of their addresses. */
export interface NodePortRanges {
  /** The node's addresses inside nodePortAddresses, loopback included, sorted; 'all': every local address. */
  readonly places: Readonly<Record<IpFamily, 'all' | readonly string[]>>
  /** The addresses that `places` currently matches. */
  readonly addresses: Readonly<Record<IpFamily, readonly string[]>>
  /** Whether 127.0.0.0/8 is among them, which needs the sysctl route_localnet. */
  readonly includesLoopback: boolean
}

export function nodePortRangesOf(
  configured: readonly string[],
  addresses: Iterable<InterfaceAddress>,
  nodeIps: NodeIps,
): NodePortRanges {
  const candidates = Array.from(addresses).filter(({ interfaceName }) => interfaceName !== SERVICE_DEVICE)
  const matching = (family: IpFamily, ranges: readonly Cidr[] | 'all'): readonly string[] => {
    const found = candidates.filter(
      ({ address }) =>
        familyOf(address) === family && (ranges === 'all' || ranges.some((range) => contains(range, address))),
    )
    return Array.from(new Set(found.map(({ address }) => address))).sort()
  }
  const ipv4 = rangesOf(configured, 'IPv4', nodeIps)
  const ipv6 = rangesOf(configured, 'IPv6', nodeIps)
  const addressesOf = { IPv4: matching('IPv4', ipv4), IPv6: matching('IPv6', ipv6) }
  return {
    addresses: addressesOf,
    places: { IPv4: ipv4 === 'all' ? ipv4 : addressesOf.IPv4, IPv6: ipv6 === 'all' ? ipv6 : addressesOf.IPv6 },
    includesLoopback: ipv4 === 'all' || ipv4.some((range) => isLoopback(range.address) || contains(range, '127.0.0.0')),
  }
}

/** The range that the word localhost means. */
const LOOPBACK: Readonly<Record<IpFamily, Cidr>> = {
  IPv4: { family: 'IPv4', address: '127.0.0.0', prefixLength: 8 },
  IPv6: { family: 'IPv6', address: '::1', prefixLength: 128 },
}

/** The ranges of one family in nodePortAddresses; none when it contains only `primary`, and the node IP is unknown. */
function rangesOf(configured: readonly string[], family: IpFamily, nodeIps: NodeIps): readonly Cidr[] | 'all' {
  const ranges = parseCidrs(configured).filter((cidr) => cidr.family === family)
  if (configured.includes('all') || ranges.some(({ prefixLength }) => prefixLength === 0)) return 'all'
  if (configured.includes('localhost')) ranges.push(LOOPBACK[family])
  const primary = primaryIs(configured, family, nodeIps)
  if (primary === undefined) return ranges.length === 0 ? 'all' : ranges
  if (primary !== 'unknown') ranges.push({ family, address: primary, prefixLength: family === 'IPv4' ? 32 : 128 })
  return ranges
}

/** Whether nodePortAddresses has a range of the family on this node: a CIDR, or what a word means. */
export function namesFamily(configured: readonly string[], family: IpFamily, nodeIps: NodeIps): boolean {
  if (configured.includes('all') || configured.includes('localhost')) return true
  const primary = primaryIs(configured, family, nodeIps)
  return (
    (primary !== undefined && primary !== 'unknown') || parseCidrs(configured).some((cidr) => cidr.family === family)
  )
}

/** The address that `primary` means; undefined when nodePortAddresses does not contain the word. */
function primaryIs(configured: readonly string[], family: IpFamily, nodeIps: NodeIps): string | undefined {
  if (!configured.includes('primary')) return undefined
  const address = nodeIps[family]
  return address === undefined || isLoopback(address) ? 'unknown' : address
}

/** Services have node ports of a family, and nothing says at which address of this node they answer. */
export function withoutPrimaryProblem(family: IpFamily): Problem {
  return problem(
    'node-port-primary',
    '',
    `no ${family} address of this node is known, so ${family} node ports of Services answer nowhere`,
  )
}

function problem(code: string, field: string, message: string): Problem {
  return { code, about: 'configuration', subject: 'configuration', field: `nodePortAddresses${field}`, message }
}
