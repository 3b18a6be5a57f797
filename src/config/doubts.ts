/**
 * Warnings about a configuration that is valid but does not fit the cluster, or leaves node ports open to everyone, in kube-proxy's
 * words (checkBadConfig and checkBadIPConfig of cmd/kube-proxy/app/server.go). Operators search their logs for these texts.
 */
import { NODE_PORT_WORDS } from '../service/node-addresses.ts'
import { familyOf, parseAddressSloppy } from '../values/address.ts'
import { parseCidr } from '../values/cidr.ts'
import type { IpFamily } from '../values/protocol.ts'
import { splitHostPort } from './go-text.ts'
import type { KubeProxyConfiguration } from './types.ts'

/** The cluster that the configuration is compared with. */
export interface ClusterShape {
  /** Family of the node's first IP. */
  readonly primary: IpFamily
  /** Whether both families are served. */
  readonly isDualStack: boolean
  readonly podCidrs: readonly string[]
}

/** Warnings about nodePortAddresses. */
export function nodePortDoubts(configuration: KubeProxyConfiguration, cluster: ClusterShape): readonly string[] {
  const { nodePortAddresses, ipvs } = configuration
  const { primary, podCidrs } = cluster
  if (nodePortAddresses.length === 0)
    return [
      'nodePortAddresses is unset; NodePort connections will be accepted on all local IPs. Consider using `--nodeport-addresses primary`',
    ]
  // Each word means addresses of both families.
  if (nodePortAddresses.some((text) => NODE_PORT_WORDS.includes(text))) return []
  const families = familiesOf(nodePortAddresses)
  const other = otherFamily(primary)
  const open = 'NodePort connections will be accepted on all local'
  if (!families.has(primary))
    return [
      `cluster appears to be ${primary}-primary but nodePortAddresses contains only ${other} addresses; ${open} ${primary} IPs`,
    ]
  const isDual = [clusterCidrsOf(configuration), nodePortAddresses, ipvs.excludeCIDRs, podCidrs].some(
    (cidrs) => familiesOf(cidrs).size === 2,
  )
  return isDual && families.size === 1
    ? [
        `cluster appears to be dual-stack but nodePortAddresses contains only ${primary} addresses; ${open} ${other} IPs`,
      ]
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
