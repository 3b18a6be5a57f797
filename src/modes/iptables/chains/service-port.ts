/**
 * What iptables mode must know of one Service port in one family, put together from its frontends and its Service.
 * What could break: the endpoints are selected here once more, because a frontend has those of one policy only, and pods of
 * this node use the cluster list where clients from outside use the local one.
 */
import type { Endpoint } from '../../../service/endpoints.ts'
import type { Frontend, FrontendRole } from '../../../service/frontends.ts'
import type { TrafficPolicy } from '../../../service/objects.ts'
import type { Firewall } from '../../../service/source-ranges.ts'
import { type NodePlace, selectEndpoints } from '../../../service/topology.ts'
import { familyOf, formatEndpoint } from '../../../values/address.ts'
import type { IpFamily, Protocol } from '../../../values/protocol.ts'

/** An endpoint as `ip:port`, IPv6 in brackets, beside its address. */
export interface NamedEndpoint {
  readonly address: string
  readonly text: string
}

export interface ServicePortFacts {
  readonly family: IpFamily
  /** `namespace/name:port` */
  readonly name: string
  readonly protocol: Protocol
  readonly port: number
  /** Absent when another Service has the address and port. */
  readonly clusterIp: string | undefined
  readonly externalIps: readonly string[]
  readonly vips: readonly string[]
  /** Whether the port has an address beside its cluster IP. */
  readonly isExternal: boolean
  /** 0 when there is none, as are the next two. */
  readonly nodePort: number
  readonly healthCheckNodePort: number
  readonly affinityTimeoutSeconds: number
  readonly internalPolicy: TrafficPolicy
  readonly externalPolicy: TrafficPolicy
  /** Of the VIPs. */
  readonly firewall: Firewall | undefined
  /** Sorted by text. Empty where the policies do not use it. */
  readonly cluster: readonly NamedEndpoint[]
  readonly local: readonly NamedEndpoint[]
  /** Whether some endpoint is usable anywhere. */
  readonly hasAny: boolean
}

/**
 * `frontends`: all winning ones of the port and family, the one that changed last at the end: only those are told that differ
 * for ipvs mode, and the others hold the Service as it was before.
 */
export function factsOf(
  frontends: Iterable<Frontend>,
  node: NodePlace,
  usesExternalIps: boolean,
): ServicePortFacts | undefined {
  const all = Array.from(frontends)
  const newest = all.at(-1)
  if (newest === undefined) return undefined
  const { service, family, servicePortName: name, protocol, candidates } = newest
  const of = (role: FrontendRole): readonly Frontend[] => all.filter(({ roles }) => roles.includes(role))
  const addressesOf = (role: FrontendRole): string[] => of(role).map(({ address }) => address)
  const [clusterIp] = of('ClusterIP')
  const [vip] = of('LoadBalancerVip')
  const [nodePort] = of('NodePort')
  const { internalTrafficPolicy: internal, externalTrafficPolicy: external } = service
  const isExternal =
    all.some(({ roles }) => roles.length > 1 || roles[0] !== 'ClusterIP') ||
    // kube-proxy makes the chain for them all the same, and nothing leads to it.
    (!usesExternalIps && service.externalIps.some((address) => familyOf(address) === family))
  const usesCluster = internal === 'Cluster' || isExternal
  const usesLocal = internal === 'Local' || (external === 'Local' && isExternal)
  return {
    family,
    name,
    protocol,
    port: (clusterIp ?? vip ?? of('ExternalIP')[0])?.port ?? 0,
    clusterIp: clusterIp?.address,
    externalIps: inOrder(addressesOf('ExternalIP'), service.externalIps),
    vips: inOrder(addressesOf('LoadBalancerVip'), service.loadBalancerVips),
    isExternal,
    nodePort: nodePort?.port ?? 0,
    healthCheckNodePort: service.healthCheckNodePort,
    affinityTimeoutSeconds: service.affinityTimeoutSeconds,
    internalPolicy: internal,
    externalPolicy: external,
    firewall: vip?.firewall,
    cluster: usesCluster ? named(selectEndpoints('Cluster', 'Cluster', candidates, node).internal.endpoints) : [],
    local: usesLocal ? named(selectEndpoints('Local', 'Local', candidates, node).internal.endpoints) : [],
    hasAny: candidates.some(({ source }) => source.ready || (source.serving && source.terminating)),
  }
}

/** Frontends come in the order in which they changed; the Service has an order of its own. */
function inOrder(addresses: readonly string[], order: readonly string[]): readonly string[] {
  if (addresses.length < 2) return addresses
  const wanted = new Set(addresses)
  return Array.from(new Set(order)).filter((address) => wanted.has(address))
}

function named(endpoints: readonly Endpoint[]): readonly NamedEndpoint[] {
  return endpoints
    .map(({ address, port }) => ({ address, text: formatEndpoint(address, port) }))
    .sort((a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : 0))
}
