/** What the daemon tells about one Service over the local socket: its ports, its endpoints with verdicts, and its frontends. */
import type { EndpointView, FrontendView, ServicePortView } from '../inspect/view.ts'
import { type Endpoint, isLocalTo } from '../service/endpoints.ts'
import type { ServicePort } from '../service/service-port.ts'
import type { Frontend } from '../service/frontends.ts'
import type { DesiredFrontends } from '../sync/desired-frontends.ts'
import type { Claim } from '../sync/owned-map.ts'
import { formatEndpoint } from '../values/address.ts'
import { formatCidr } from '../values/cidr.ts'
import type { Turns } from './turns.ts'

export interface ServiceViewOptions {
  readonly desired: Pick<DesiredFrontends, 'claimedBy' | 'claims'>
  readonly nodeName: string
  /** Whether the mode binds virtual IPs to this node. */
  readonly binds: boolean
  readonly turns: Turns
  /** The most endpoints and frontends in one answer. */
  readonly limit: number
}

interface OpenPort {
  readonly port: ServicePort
  readonly frontends: FrontendView[]
}

/** The ports of a Service, in the order of its frontends, and how many endpoints and frontends were left out. */
export async function servicePortViews(
  owner: string,
  options: ServiceViewOptions,
): Promise<{ readonly ports: readonly ServicePortView[]; readonly omitted: number }> {
  const { desired, turns } = options
  let left = options.limit
  let omitted = 0
  const open = new Map<string, OpenPort>()
  for (const key of desired.claimedBy(owner)) {
    const claims = desired.claims(key)
    const frontend = claims.find((claim) => claim.owner === owner)?.value
    // It was withdrawn while this answer was made.
    if (frontend === undefined) continue
    const { servicePort: port } = frontend
    const name = `${port.family} ${port.protocol} ${port.name}`
    let entry = open.get(name)
    if (entry === undefined) open.set(name, (entry = { port, frontends: [] }))
    if (left > 0) entry.frontends.push(frontendView(frontend, claims, options.binds))
    else omitted++
    left--
    if (turns.isDue) await turns.next()
  }
  const ports: ServicePortView[] = []
  for (const { port, frontends } of open.values()) {
    const endpoints: EndpointView[] = []
    for (const [index, endpoint] of port.candidates.entries()) {
      if (left-- > 0) endpoints.push(endpointView(port, endpoint, index, options.nodeName))
      else omitted++
      if (turns.isDue) await turns.next()
    }
    ports.push({ ...portView(port), endpoints, frontends })
  }
  return { ports, omitted }
}

function portView(port: ServicePort): Omit<ServicePortView, 'endpoints' | 'frontends'> {
  const { name, family, protocol, service, internal, external } = port
  return {
    name,
    family,
    protocol,
    port: port.port,
    internalPolicy: internal.policy,
    externalPolicy: external.policy,
    affinityTimeoutSeconds: service.affinityTimeoutSeconds,
    healthCheckNodePort: service.healthCheckNodePort,
  }
}

function endpointView(port: ServicePort, endpoint: Endpoint, index: number, nodeName: string): EndpointView {
  const { source } = endpoint
  return {
    key: formatEndpoint(endpoint.address, endpoint.port),
    node: source.nodeName,
    isLocal: isLocalTo(source, nodeName),
    ready: source.ready,
    serving: source.serving,
    terminating: source.terminating,
    zoneHints: source.zoneHints ?? [],
    nodeHints: source.nodeHints ?? [],
    internal: port.internal.verdicts[index] ?? 'not-ready',
    external: port.external.verdicts[index] ?? 'not-ready',
  }
}

/** Thousands of Services may claim one key. */
const MAX_OTHERS = 20

function frontendView(frontend: Frontend, claims: readonly Claim<Frontend>[], binds: boolean): FrontendView {
  const { key, roles, bind, firewall } = frontend
  const [winner, ...others] = claims.slice(0, 1 + MAX_OTHERS).map(({ owner }) => owner)
  return {
    key,
    roles,
    isBound: binds && bind,
    verdicts: roles.length === 1 && roles[0] === 'ClusterIP' ? 'internal' : 'external',
    owner: winner ?? '',
    others,
    sourceRanges: firewall === undefined ? null : firewall.ranges.map(formatCidr),
  }
}
