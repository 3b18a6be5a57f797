/**
 * Which of the node's addresses are its own, and at which of them node ports answer.
 * What could break: addresses on kube-ipvs0 are Services' addresses, never the node's; one that slipped in here would be
 * taken off the device again, or would get node ports.
 */
import { familyOf, isLinkLocal, isLoopback } from '../values/address.ts'
import { type Cidr, contains, parseCidr } from '../values/cidr.ts'
import type { Problem } from '../values/errors.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import type { NodeIps } from './node-context.ts'

/** The device that carries the Services' addresses. */
const SERVICE_DEVICE = 'kube-ipvs0'

/** An address as the kernel lists it for an interface. */
export interface InterfaceAddress {
  readonly interfaceName: string
  /** Canonical text, without prefix length. */
  readonly address: string
}

/** Where node ports answer, and what is wrong with the configuration that says so. */
export interface NodePortAddresses {
  readonly addresses: Readonly<Record<IpFamily, readonly string[]>>
  readonly problems: readonly Problem[]
}

function isNodesOwn(address: string): boolean {
  return !isLoopback(address) && !(familyOf(address) === 'IPv6' && isLinkLocal(address))
}

/** The node's own addresses: all interfaces but kube-ipvs0, no loopback and no IPv6 link-local ones. */
export function localAddressesOf(addresses: Iterable<InterfaceAddress>): ReadonlySet<string> {
  const local = new Set<string>()
  for (const { interfaceName, address } of addresses) {
    if (interfaceName !== SERVICE_DEVICE && isNodesOwn(address)) local.add(address)
  }
  return local
}

/**
 * The addresses at which node ports answer, sorted. `configured` is nodePortAddresses of KubeProxyConfiguration: CIDRs,
 * or `primary` for the node's IPs; a family without a CIDR of its own, or with one of length 0, matches all of the node's
 * own addresses. With `primary` a family whose node IP is unknown matches none (kube-proxy: all), and that is a problem.
 */
export function nodePortAddressesOf(
  configured: readonly string[],
  addresses: Iterable<InterfaceAddress>,
  nodeIps: NodeIps,
): NodePortAddresses {
  const candidates = Array.from(addresses).filter(({ interfaceName }) => interfaceName !== SERVICE_DEVICE)
  const problems: Problem[] = []
  for (const [index, text] of configured.entries()) {
    if (text !== 'primary' && parseCidr(text) === undefined)
      problems.push(problem('node-port-cidr', `[${index}]`, `${JSON.stringify(text)} is no CIDR`))
  }
  const matching = (family: IpFamily): readonly string[] => {
    const ranges = rangesOf(configured, family, nodeIps)
    if (ranges.length === 0)
      problems.push(
        problem('node-port-primary', '', `no ${family} address of this node is known, so no ${family} node ports`),
      )
    const found = new Set<string>()
    for (const { address } of candidates) {
      if (familyOf(address) !== family || isLoopback(address)) continue
      if (ranges === 'all' ? isNodesOwn(address) : ranges.some((range) => contains(range, address))) found.add(address)
    }
    return Array.from(found).sort()
  }
  const [ipv4, ipv6] = IP_FAMILIES.map(matching)
  return { addresses: { IPv4: ipv4 ?? [], IPv6: ipv6 ?? [] }, problems }
}

/** Every address of a family, for a socket. */
const ANY_ADDRESS: Readonly<Record<IpFamily, string>> = { IPv4: '0.0.0.0', IPv6: '::' }

/**
 * The addresses that health check ports listen on, sorted: the node's addresses inside nodePortAddresses, loopback
 * included, or the one that stands for all addresses of the family. When nothing matches it is the node's IP alone, if that
 * is known and on an interface: a load balancer that asks it in vain would take the whole node out (kube-proxy has no
 * listener then), and the operator wanted to open no other address.
 */
export function healthCheckAddressesOf(
  configured: readonly string[],
  addresses: Iterable<InterfaceAddress>,
  nodeIps: NodeIps,
): Readonly<Record<IpFamily, readonly string[]>> {
  const candidates = Array.from(addresses).filter(
    // To listen on an IPv6 link-local address takes an interface, too.
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

/** Where node ports answer when nothing listens for them address by address (iptables mode). */
export interface NodePortRanges {
  /** The node's addresses inside nodePortAddresses, loopback included, sorted; or every address that is local. */
  readonly places: Readonly<Record<IpFamily, 'all' | readonly string[]>>
  /** The node's addresses that this comes to now. */
  readonly addresses: Readonly<Record<IpFamily, readonly string[]>>
  /** Whether 127.0.0.0/8 is among them, which takes the sysctl route_localnet. */
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

/** The ranges of one family that nodePortAddresses name; none when `primary` names an address that is not known. */
function rangesOf(configured: readonly string[], family: IpFamily, nodeIps: NodeIps): readonly Cidr[] | 'all' {
  const ranges = configured.flatMap((text) => parseCidr(text) ?? []).filter((cidr) => cidr.family === family)
  if (configured.includes('primary')) {
    const address = nodeIps[family]
    if (address === undefined || isLoopback(address)) return []
    ranges.push({ family, address, prefixLength: family === 'IPv4' ? 32 : 128 })
  }
  return ranges.length === 0 || ranges.some(({ prefixLength }) => prefixLength === 0) ? 'all' : ranges
}

function problem(code: string, field: string, message: string): Problem {
  return { code, subject: 'configuration', field: `nodePortAddresses${field}`, message }
}
