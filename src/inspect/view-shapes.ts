/** The shapes of the answers of view.ts: what answers may be another version, or no daemon at all. */
import type { WantedObject } from '../explain/wanted-objects.ts'
import type { Verdict } from '../service/endpoints.ts'
import type { FrontendRole } from '../service/frontends.ts'
import type { TrafficPolicy } from '../service/objects.ts'
import type { Problem, ProblemAbout } from '../values/errors.ts'
import type { IpFamily, Protocol } from '../values/protocol.ts'
import { flag, kinds, list, nullable, number, object, optional, pair, type Shape, text, word } from './shape.ts'
import type {
  ClaimsView,
  ConflictView,
  ConnectionsView,
  DaemonView,
  DrainsView,
  DrainView,
  EndpointView,
  FrontendName,
  FrontendView,
  HealthView,
  NamesPage,
  NodeViewOfDaemon,
  ObjectsView,
  PassView,
  PodView,
  RoomView,
  ServicePortView,
  ServiceView,
  SettingsView,
} from './view.ts'

type Wanted<Kind extends WantedObject['kind']> = Extract<WantedObject, { readonly kind: Kind }>
type WantedServer = Wanted<'virtual-server'>['server']
type WantedRoute = Wanted<'route'>['route']

const texts = list(text)
const family = word<IpFamily>({ IPv4: true, IPv6: true })
const protocol = word<Protocol>({ tcp: true, udp: true, sctp: true })
const mode = word<DaemonView['mode']>({ ipvs: true, iptables: true })
const policy = word<TrafficPolicy>({ Cluster: true, Local: true })
const table = word<Wanted<'chain'>['table']>({ nat: true, filter: true, mangle: true })
const roles = list(word<FrontendRole>({ ClusterIP: true, NodePort: true, LoadBalancerVip: true, ExternalIP: true }))
const verdict = word<Verdict>({
  used: true,
  'used-local': true,
  'used-node-hint': true,
  'used-zone-hint': true,
  'used-no-local': true,
  'used-terminating': true,
  'not-ready': true,
  'not-serving': true,
  terminating: true,
  'not-local': true,
  'other-node-hint': true,
  'other-zone-hint': true,
})
const problem = object<Problem>({
  code: text,
  about: word<ProblemAbout>({ object: true, setting: true, node: true, configuration: true }),
  subject: text,
  field: optional(text),
  message: text,
})

const pass = object<PassView>({
  what: text,
  endedSecondsAgo: nullable(number),
  durationMs: number,
  applied: number,
  failed: number,
  unreadable: number,
})
const node = object<NodeViewOfDaemon>({
  name: text,
  zone: nullable(text),
  ips: object<NodeViewOfDaemon['ips']>({ IPv4: optional(text), IPv6: optional(text) }),
  nodePortAddresses: object<NodeViewOfDaemon['nodePortAddresses']>({ IPv4: texts, IPv6: texts }),
  podCidrs: texts,
})
const settings = object<SettingsView>({
  masqueradeAll: flag,
  masqueradeBit: number,
  localhostNodePorts: flag,
  tcpBeLiberal: flag,
  clusterCIDR: text,
  detectLocalMode: text,
  bridgeInterface: text,
  interfaceNamePrefix: text,
  scheduler: text,
  serviceAnnotations: flag,
  drainDeadlineSeconds: nullable(number),
})
const health = object<HealthView>({
  healthy: flag,
  reason: nullable(text),
  pending: list(object<HealthView['pending'][number]>({ what: text, seconds: number })),
})

export const DAEMON_VIEW = object<DaemonView>({
  format: number,
  version: text,
  pid: number,
  uptimeSeconds: number,
  mode,
  configuredMode: mode,
  fallback: nullable(object<NonNullable<DaemonView['fallback']>>({ reason: text, message: text, remedy: text })),
  virtualAddresses: word<DaemonView['virtualAddresses']>({ addresses: true, routes: true }),
  families: list(family),
  node,
  settings,
  health,
  awaiting: texts,
  counts: object<DaemonView['counts']>({
    services: number,
    frontends: number,
    conflicts: number,
    draining: number,
    problems: number,
  }),
  room: optional(
    object<RoomView>({
      used: number,
      limit: number,
      leftOut: object<RoomView['leftOut']>({ services: number, frontends: number }),
    }),
  ),
  passes: list(pass),
  problems: list(problem),
  conflicts: list(object<ConflictView>({ key: text, owner: text, others: texts })),
})

export const NAMES_PAGE = object<NamesPage>({
  format: number,
  frontends: list(object<FrontendName>({ key: text, servicePort: text, roles })),
  more: flag,
})

const endpoint = object<EndpointView>({
  key: text,
  node: text,
  isLocal: flag,
  ready: flag,
  serving: flag,
  terminating: flag,
  zoneHints: texts,
  nodeHints: texts,
  internal: verdict,
  external: verdict,
})
const frontend = object<FrontendView>({
  key: text,
  roles,
  isBound: flag,
  verdicts: word<FrontendView['verdicts']>({ internal: true, external: true }),
  owner: text,
  others: texts,
  sourceRanges: nullable(texts),
})
const servicePort = object<ServicePortView>({
  name: text,
  family,
  protocol,
  port: number,
  internalPolicy: policy,
  externalPolicy: policy,
  affinityTimeoutSeconds: number,
  healthCheckNodePort: number,
  endpoints: list(endpoint),
  frontends: list(frontend),
})

export const SERVICE_VIEW = object<ServiceView>({
  format: number,
  namespace: text,
  name: text,
  ports: list(servicePort),
  problems: list(problem),
  omitted: number,
  annotations: list(pair(text, text)),
})

const server = object<WantedServer>({
  family,
  address: text,
  port: number,
  protocol,
  scheduler: text,
  flags: number,
  timeoutSeconds: number,
  netmask: number,
  persistenceEngine: text,
  realServers: list(
    object<WantedServer['realServers'][number]>({
      address: text,
      port: number,
      weight: number,
      forwarding: word<WantedServer['realServers'][number]['forwarding']>({
        masquerade: true,
        local: true,
        tunnel: true,
        route: true,
        bypass: true,
        unknown: true,
      }),
      upperThreshold: number,
      lowerThreshold: number,
    }),
  ),
})
const route = object<WantedRoute>({
  address: text,
  paths: list(
    object<WantedRoute['paths'][number]>({ interfaceIndex: number, source: optional(text), priority: number }),
  ),
})
const wanted: Shape<WantedObject> = kinds<WantedObject>({
  'virtual-server': object<Wanted<'virtual-server'>>({
    kind: word({ 'virtual-server': true }),
    frontend: text,
    server,
  }),
  'set-entry': object<Wanted<'set-entry'>>({
    kind: word({ 'set-entry': true }),
    frontend: text,
    set: text,
    entry: text,
  }),
  address: object<Wanted<'address'>>({ kind: word({ address: true }), frontend: text, address: text }),
  route: object<Wanted<'route'>>({ kind: word({ route: true }), frontend: text, route }),
  chain: object<Wanted<'chain'>>({
    kind: word({ chain: true }),
    servicePort: text,
    family,
    table,
    chain: text,
    rules: texts,
  }),
  rule: object<Wanted<'rule'>>({
    kind: word({ rule: true }),
    servicePort: text,
    family,
    table,
    chain: text,
    rule: text,
  }),
})

export const OBJECTS_VIEW = object<ObjectsView>({ format: number, objects: list(wanted), omitted: number })

export const CLAIMS_VIEW = object<ClaimsView>({ format: number, key: text, services: texts })

const drain = object<DrainView>({
  virtualServer: text,
  realServer: text,
  servicePort: nullable(text),
  seconds: number,
  deadlineSeconds: nullable(number),
})

export const DRAINS_VIEW = object<DrainsView>({ format: number, drains: list(drain), omitted: number })

export const POD_VIEW = object<PodView>({ format: number, addresses: texts, endpoints: texts })

export const CONNECTIONS_VIEW = object<ConnectionsView>({
  format: number,
  active: number,
  inactive: number,
  udp: nullable(number),
})
