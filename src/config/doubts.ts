/**
 * What kube-proxy says of a configuration that is valid but does not fit the cluster or leaves node ports wide open, in
 * its words (checkBadConfig and checkBadIPConfig of cmd/kube-proxy/app/server.go). Pure.
 * What could break: people grep for these texts; only what cannot work at all is fatal.
 */
import { familyOf } from '../values/address.ts'
import { parseCidr } from '../values/cidr.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { KubeProxyConfiguration } from './types.ts'

/** What the configuration is held against. */
export interface ClusterShape {
  /** Family of the node's first IP. */
  readonly primary: IpFamily
  /** Whether the kernel has both families. */
  readonly isDualStack: boolean
  readonly podCidrs: readonly string[]
}

export interface Doubts {
  readonly texts: readonly string[]
  /** What ends the process; empty when it may go on. */
  readonly fatal: readonly string[]
}

/** Everything doubtful, in kube-proxy's order. */
export function doubtsAbout(configuration: KubeProxyConfiguration, cluster: ClusterShape): Doubts {
  const { nodePortAddresses, ipvs, detectLocalMode } = configuration
  const { primary, isDualStack, podCidrs } = cluster
  const clusterCidrs = configuration.clusterCIDR === '' ? [] : configuration.clusterCIDR.split(',')
  const isDual = [clusterCidrs, nodePortAddresses, ipvs.excludeCIDRs, podCidrs].some(
    (cidrs) => familiesOf(cidrs).size === 2,
  )
  const other = primary === 'IPv4' ? 'IPv6' : 'IPv4'
  const kind = isDualStack ? `${primary}-primary` : `${primary}-only`
  const isBad = (cidrs: readonly string[]): boolean => {
    const families = familiesOf(cidrs)
    return families.size === 1 && families.has(other)
  }
  const clusterText = isBad(clusterCidrs)
    ? [`cluster is ${kind} but clusterCIDRs contains only ${other} addresses`]
    : []
  const podText = isBad(podCidrs) ? [`cluster is ${kind} but node.spec.podCIDRs contains only ${other} addresses`] : []
  const excludeText = isBad(ipvs.excludeCIDRs)
    ? [`cluster is ${kind} but ipvs.excludeCIDRs contains only ${other} addresses`]
    : []
  return {
    texts: [...nodePortTexts(nodePortAddresses, primary, other, isDual), ...clusterText, ...podText, ...excludeText],
    fatal: [
      ...(detectLocalMode === 'ClusterCIDR' && !isDualStack ? clusterText : []),
      ...(detectLocalMode === 'NodeCIDR' ? podText : []),
    ],
  }
}

function nodePortTexts(addresses: readonly string[], primary: IpFamily, other: IpFamily, isDual: boolean): string[] {
  if (addresses.length === 0)
    return [
      'nodePortAddresses is unset; NodePort connections will be accepted on all local IPs. Consider using `--nodeport-addresses primary`',
    ]
  if (addresses.includes('primary')) return []
  const families = familiesOf(addresses)
  const open = 'NodePort connections will be accepted on all local'
  if (!families.has(primary))
    return [
      `cluster appears to be ${primary}-primary but nodePortAddresses contains only ${other} addresses; ${open} ${primary} IPs`,
    ]
  return isDual && families.size === 1
    ? [
        `cluster appears to be dual-stack but nodePortAddresses contains only ${primary} addresses; ${open} ${other} IPs`,
      ]
    : []
}

function familiesOf(cidrs: readonly string[]): ReadonlySet<IpFamily> {
  return new Set(
    cidrs.flatMap((text) => {
      const cidr = parseCidr(text)
      return cidr === undefined ? [] : familyOf(cidr.address)
    }),
  )
}
