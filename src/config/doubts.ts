/**
 * Warnings about a configuration that is valid but does not fit the cluster, or leaves node ports
 * open to everyone, in kube-proxy's words (checkBadConfig and checkBadIPConfig of
 * cmd/kube-proxy/app/server.go). Operators search their logs for these texts.
 */
import { namesFamily } from '../service/node-addresses.ts'
import { familyOf, parseAddressSloppy } from '../values/address.ts'
import { parseCidr } from '../values/cidr.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import { splitHostPort } from './go-text.ts'
import type { KubeProxyConfiguration } from './types.ts'

/** The cluster that the configuration is compared with. */
export interface ClusterShape {
  /** Family of the node's first IP. */
  readonly primary: IpFamily
  /** Whether both families are served. */
  readonly isDualStack: boolean
  readonly podCidrs: readonly string[]
  /** The node's own IP of each family it has one of. */
  readonly nodeIps: { readonly [family in IpFamily]?: string }
}

/**
 * Warnings about nodePortAddresses, whose words count as the ranges that they mean on this node. A
 * family without a range stays open, but not beside the word primary: there kube-ipvs opens no
 * address of a family in which the Node has none (row 25 of docs/deviations.md), and the end of the
 * text says that.
 */
export function nodePortDoubts(configuration: KubeProxyConfiguration, cluster: ClusterShape): readonly string[] {
  const { nodePortAddresses, ipvs } = configuration
  const { primary, podCidrs, nodeIps } = cluster
  if (nodePortAddresses.length === 0)
    return [
      'nodePortAddresses is unset; NodePort connections will be accepted on all local IPs. Consider using `--nodeport-addresses primary`',
    ]
  const named = IP_FAMILIES.filter((family) => namesFamily(nodePortAddresses, family, nodeIps))
  // The word primary alone, on a node whose IPs are unknown: a problem of the daemon says so.
  if (named.length === 0) return []
  const other = otherFamily(primary)
  const rest = (family: IpFamily): string =>
    nodePortAddresses.includes('primary')
      ? `NodePort connections will be accepted on no local ${family} IPs while the Node has none`
      : `NodePort connections will be accepted on all local ${family} IPs`
  if (!named.includes(primary))
    return [
      `cluster appears to be ${primary}-primary but nodePortAddresses contains only ${other} addresses; ${rest(primary)}`,
    ]
  const isDual = [clusterCidrsOf(configuration), ipvs.excludeCIDRs, podCidrs].some(
    (cidrs) => familiesOf(cidrs).size === 2,
  )
  return isDual && named.length === 1
    ? [`cluster appears to be dual-stack but nodePortAddresses contains only ${primary} addresses; ${rest(other)}`]
    : []
}

export interface FamilyDoubts {
  /** In kube-proxy's order. */
  readonly texts: readonly string[]
  /** Whether one of them ends the process. */
  readonly isFatal: boolean
}

/** Warnings about fields whose addresses are all of the wrong family. */
export function familyDoubts(configuration: KubeProxyConfiguration, cluster: ClusterShape): FamilyDoubts {
  const { ipvs, detectLocalMode, healthzBindAddress, metricsBindAddress } = configuration
  const { primary, isDualStack, podCidrs } = cluster
  const other = otherFamily(primary)
  const kind = isDualStack ? `${primary}-primary` : `${primary}-only`
  const onlyOther = (cidrs: readonly string[], what: string): string[] => {
    const families = familiesOf(cidrs)
    return families.size === 1 && families.has(other)
      ? [`cluster is ${kind} but ${what} contains only ${other} addresses`]
      : []
  }
  const isOther = (bindAddress: string, what: string): string[] =>
    boundFamily(bindAddress) === other ? [`cluster is ${kind} but ${what} is ${other}`] : []
  const clusterText = onlyOther(clusterCidrsOf(configuration), 'clusterCIDRs')
  const podText = onlyOther(podCidrs, 'node.spec.podCIDRs')
  // These matter only if the other family is not served.
  const singleStack = isDualStack
    ? []
    : [
        ...onlyOther(ipvs.excludeCIDRs, 'ipvs.excludeCIDRs'),
        ...isOther(healthzBindAddress, 'healthzBindAddress'),
        ...isOther(metricsBindAddress, 'metricsBindAddress'),
      ]
  return {
    texts: [...clusterText, ...podText, ...singleStack],
    isFatal:
      (detectLocalMode === 'ClusterCIDR' && !isDualStack && clusterText.length > 0) ||
      (detectLocalMode === 'NodeCIDR' && podText.length > 0),
  }
}

function otherFamily(family: IpFamily): IpFamily {
  return family === 'IPv4' ? 'IPv6' : 'IPv4'
}

function clusterCidrsOf({ clusterCIDR }: KubeProxyConfiguration): readonly string[] {
  return clusterCIDR === '' ? [] : clusterCIDR.split(',')
}

/** The family that `IP:port` is bound to; undefined if there is none, or for all addresses (0.0.0.0, ::). */
function boundFamily(bindAddress: string): IpFamily | undefined {
  const split = splitHostPort(bindAddress)
  const address = 'error' in split ? undefined : parseAddressSloppy(split.host)
  return address === undefined || address === '0.0.0.0' || address === '::' ? undefined : familyOf(address)
}

function familiesOf(cidrs: readonly string[]): ReadonlySet<IpFamily> {
  return new Set(
    cidrs.flatMap((text) => {
      const cidr = parseCidr(text)
      return cidr === undefined ? [] : familyOf(cidr.address)
    }),
  )
}
