/**
 * What the daemon tells about one Service over the local socket: its ports, its endpoints with
 * verdicts, its frontends, and what it wants in the kernel for those that the Service has won.
 */
import { VIEW_FORMAT } from '../inspect/questions.ts'
import type { EndpointView, FrontendView, ServicePortView, ServicesView, ServiceView } from '../inspect/view.ts'
import type { RelayView } from '../inspect/relay-view.ts'
import type { Mode } from '../modes/mode.ts'
import type { Wanted } from '../explain/wanted.ts'
import type { ProblemLog } from '../serve/problem-log.ts'
import { annotationsIn } from '../service/annotations.ts'
import { type Endpoint, isLocalTo } from '../service/endpoints.ts'
import type { ServicePort } from '../service/service-port.ts'
import type { Frontend } from '../service/frontends.ts'
import type { DesiredFrontends } from '../sync/desired-frontends.ts'
import type { Claim } from '../sync/owned-map.ts'
import type { Budget } from '../values/budget.ts'
import { formatEndpoint } from '../values/address.ts'
import type { LocalhostNodePorts } from './localhost-node-ports.ts'
import { formatCidr } from '../values/cidr.ts'
import type { Problem } from '../values/errors.ts'

export interface ServiceViewOptions {
  readonly desired: Pick<DesiredFrontends, 'claimedBy' | 'claims' | 'objects'>
  readonly problems: Pick<ProblemLog, 'current'>
  readonly mode: Pick<Mode, 'name'> & { readonly dataplane: Pick<Mode['dataplane'], 'wanted'> }
  readonly localhostNodePorts: Pick<LocalhostNodePorts, 'states'>
  readonly nodeName: string
  readonly budget: Budget
  /** The most endpoints and frontends, and the most rows: a real server and a rule count as much as a row. */
  readonly limit: number
}

/** Problems of one Service. */
const MAX_PROBLEMS = 100

/** The JSON of a ServicesView, made in portions. */
export async function servicesText(owners: readonly string[], options: ServiceViewOptions): Promise<string> {
  const views: string[] = []
  for (const owner of owners) views.push(await serviceText(owner, options))
  const view = { format: VIEW_FORMAT } satisfies Omit<ServicesView, 'services'>
  return `${JSON.stringify(view).slice(0, -1)},"services":[${views.join(',')}]}`
}

async function serviceText(owner: string, options: ServiceViewOptions): Promise<string> {
  const { desired, problems, budget } = options
  const { ports, omitted } = await servicePortViews(owner, options)
  const { wanted, omittedRows } = await wantedRows(owner, options)
  const found: Problem[] = []
  const subject = `service ${owner}`
  for (const problem of problems.current()) {
    if (problem.subject === subject && found.length < MAX_PROBLEMS) found.push(problem)
    if (budget.spentBySteps()) await budget.turn()
  }
  const [namespace = '', name = ''] = owner.split('/')
  const annotations = annotationsIn(desired.objects.service(owner)?.annotations ?? '')
  const relays = relayViews(owner, options)
  return textOf({ namespace, name, ports, problems: found, omitted, annotations, wanted, omittedRows, relays }, budget)
}

/** Of one Service; its other endpoints are among those of its ports. */
const [MAX_RELAYS, MAX_RELAYED] = [100, 20]

function relayViews(owner: string, { localhostNodePorts }: ServiceViewOptions): readonly RelayView[] | null {
  const states = localhostNodePorts.states({ owner })
  if (states === undefined) return null
  const views: RelayView[] = []
  for (const { socket, state, because, endpoints } of states) {
    if (views.length === MAX_RELAYS) break
    const shown = endpoints.slice(0, MAX_RELAYED)
    const omitted = endpoints.length - shown.length
    views.push({
      socket,
      state,
      because,
      endpoints: shown.map((one) => formatEndpoint(one.address, one.port)),
      omitted,
    })
  }
  return views
}

/** JSON.stringify of a Service's view, port by port and in portions. */
async function textOf({ ports, wanted, ...rest }: ServiceView, budget: Budget): Promise<string> {
  const texts: string[] = []
  for (const { endpoints, frontends, ...port } of ports) {
    const lists = [await listText(endpoints, budget), await listText(frontends, budget)]
    texts.push(`${JSON.stringify(port).slice(0, -1)},"endpoints":${lists[0]},"frontends":${lists[1]}}`)
  }
  const rows = await listText(wanted, budget)
  return `${JSON.stringify(rest).slice(0, -1)},"ports":[${texts.join(',')}],"wanted":${rows}}`
}

async function listText(items: readonly object[], budget: Budget): Promise<string> {
  const texts: string[] = []
  for (const item of items) {
    texts.push(JSON.stringify(item))
    if (budget.spentBySteps()) await budget.turn()
  }
  return `[${texts.join(',')}]`
}

/** What is wanted for a Service's frontends, without those that another Service has won. */
async function wantedRows(
  owner: string,
  { desired, mode, budget, limit }: ServiceViewOptions,
): Promise<{ readonly wanted: readonly Wanted[]; readonly omittedRows: number }> {
  const won: Frontend[] = []
  for (const key of desired.claimedBy(owner)) {
    const [first] = desired.claims(key)
    if (first?.owner === owner) won.push(first.value)
    if (budget.spentBySteps()) await budget.turn()
  }
  const wanted: Wanted[] = []
  let left = limit
  let omittedRows = 0
  for (const row of mode.dataplane.wanted(won)) {
    if (left > 0) wanted.push(row)
    else omittedRows++
    left -= sizeOf(row)
    if (budget.spentBySteps()) await budget.turn()
  }
  return { wanted, omittedRows }
}

function sizeOf({ item }: Wanted): number {
  return 1 + ('realServers' in item ? item.realServers.length : 'rules' in item ? item.rules.length : 0)
}

interface OpenPort {
  readonly port: ServicePort
  readonly frontends: FrontendView[]
}

/** The ports of a Service, in the order of its frontends, and how many endpoints and frontends were left out. */
async function servicePortViews(
  owner: string,
  options: ServiceViewOptions,
): Promise<{ readonly ports: readonly ServicePortView[]; readonly omitted: number }> {
  const { desired, budget } = options
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
    if (left > 0) entry.frontends.push(frontendView(frontend, claims, options.mode.name === 'ipvs'))
    else omitted++
    left--
    if (budget.spentBySteps()) await budget.turn()
  }
  const ports: ServicePortView[] = []
  for (const { port, frontends } of open.values()) {
    const endpoints: EndpointView[] = []
    for (const [index, endpoint] of port.candidates.entries()) {
      if (left-- > 0) endpoints.push(endpointView(port, endpoint, index, options.nodeName))
      else omitted++
      if (budget.spentBySteps()) await budget.turn()
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
