/**
 * What iptables mode renders of one Service port in one family: the ServicePort and the addresses
 * that it serves. Another Service may have won some of its addresses.
 */
import type { Endpoint } from '../../../service/endpoints.ts'
import type { ServicePort } from '../../../service/service-port.ts'
import type { Frontend, FrontendRole } from '../../../service/frontends.ts'
import { formatEndpoint } from '../../../values/address.ts'
import { compareText } from '../../../values/lists.ts'

/** An endpoint: its address, and `ip:port` as text with IPv6 in brackets. */
export interface NamedEndpoint {
  readonly address: string
  readonly text: string
}

export interface ServedPort {
  readonly servicePort: ServicePort
  /** Absent when another Service has the address and port. */
  readonly clusterIp: string | undefined
  /** In the order of the Service, like `vips`. */
  readonly externalIps: readonly string[]
  readonly vips: readonly string[]
  /** 0 when the port has none. */
  readonly nodePort: number
  /** Whether the port has more addresses than its cluster IP. */
  readonly isExternal: boolean
  /** Sorted by text. Empty where the policies do not use it. */
  readonly cluster: readonly NamedEndpoint[]
  readonly local: readonly NamedEndpoint[]
}

/** @param frontends the frontends that the port has won; at least one */
export function servedPortOf(servicePort: ServicePort, frontends: Iterable<Frontend>): ServedPort {
  const all = Array.from(frontends)
  const of = (role: FrontendRole): readonly Frontend[] => all.filter(({ roles }) => roles.includes(role))
  const { cluster, local, internal } = servicePort
  const isExternal =
    all.some(({ roles }) => roles.length > 1 || roles[0] !== 'ClusterIP') ||
    // kube-proxy then still makes the chain for external traffic, although no rule jumps to it.
    servicePort.ignoresExternalIps
  const usesCluster = internal.policy === 'Cluster' || isExternal
  const usesLocal = internal.policy === 'Local' || isExternal
  return {
    servicePort,
    clusterIp: of('ClusterIP')[0]?.address,
    externalIps: inOrder(of('ExternalIP'), servicePort.externalIps),
    vips: inOrder(of('LoadBalancerVip'), servicePort.vips),
    nodePort: of('NodePort')[0]?.port ?? 0,
    isExternal,
    cluster: usesCluster ? named(cluster.endpoints) : [],
    local: usesLocal && local !== undefined ? named(local.endpoints) : [],
  }
}

/**
 * The addresses of these frontends in the order of the Service. The frontends are in the order of
 * their last change.
 */
function inOrder(frontends: readonly Frontend[], order: ReadonlySet<string>): readonly string[] {
  const served = new Set(frontends.map(({ address }) => address))
  return Array.from(order).filter((address) => served.has(address))
}

/** kube-proxy sorts endpoints by their text. */
function named(endpoints: readonly Endpoint[]): readonly NamedEndpoint[] {
  return endpoints
    .map(({ address, port }) => ({ address, text: formatEndpoint(address, port) }))
    .sort((a, b) => compareText(a.text, b.text))
}
