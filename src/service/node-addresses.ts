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
  const problems: Problem[] = []
  const primary = configured.includes('primary')
  const cidrs: Cidr[] = []
  for (const [index, text] of configured.entries()) {
    if (text === 'primary') continue
    const cidr = parseCidr(text)
    if (cidr !== undefined) cidrs.push(cidr)
    else problems.push(problem('node-port-cidr', `[${index}]`, `${JSON.stringify(text)} is no CIDR`))
  }
  const candidates = Array.from(addresses).filter(({ interfaceName }) => interfaceName !== SERVICE_DEVICE)
  const matching = (family: IpFamily): readonly string[] => {
    const ranges = cidrs.filter((cidr) => cidr.family === family)
    const nodeIp = nodeIps[family]
    if (primary && nodeIp !== undefined && !isLoopback(nodeIp)) {
      ranges.push({ family, address: nodeIp, prefixLength: family === 'IPv4' ? 32 : 128 })
    } else if (primary) {
      problems.push(
        problem('node-port-primary', '', `no ${family} address of this node is known, so no ${family} node ports`),
      )
      return []
    }
    const all = ranges.length === 0 || ranges.some(({ prefixLength }) => prefixLength === 0)
    const found = new Set<string>()
    for (const { address } of candidates) {
      if (familyOf(address) !== family || isLoopback(address)) continue
      if (all ? isNodesOwn(address) : ranges.some((range) => contains(range, address))) found.add(address)
    }
    return Array.from(found).sort()
  }
  const [ipv4, ipv6] = IP_FAMILIES.map(matching)
  return { addresses: { IPv4: ipv4 ?? [], IPv6: ipv6 ?? [] }, problems }
}

function problem(code: string, field: string, message: string): Problem {
  return { code, subject: 'configuration', field: `nodePortAddresses${field}`, message }
}
