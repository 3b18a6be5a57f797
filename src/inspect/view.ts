/**
 * What a running daemon tells about itself over its local socket, as JSON over HTTP: the shapes of
 * the answers, and their types. The kernel cannot tell any of this: names of Services, verdicts on
 * endpoints, owners of addresses, drains, problems. What answers may be another version, or no
 * daemon at all. Times are numbers of seconds before the answer: the two clocks need not agree.
 */
import { WANTED } from '../explain/wanted.ts'
import type { Problem } from '../values/errors.ts'
import { RELAY_VIEW } from './relay-view.ts'
import {
  flag,
  list,
  nullable,
  number,
  object,
  oneOf,
  optional,
  pair,
  type Read,
  type Shape,
  string,
} from '../values/shape.ts'

const texts = list(string)
const family = oneOf('IPv4', 'IPv6')
const protocol = oneOf('tcp', 'udp', 'sctp')
const mode = oneOf('ipvs', 'iptables')
const policy = oneOf('Cluster', 'Local')
const roles = list(oneOf('ClusterIP', 'NodePort', 'LoadBalancerVip', 'ExternalIP'))
const verdict = oneOf(
  'used',
  'used-local',
  'used-node-hint',
  'used-zone-hint',
  'used-no-local',
  'used-terminating',
  'not-ready',
  'not-serving',
  'terminating',
  'not-local',
  'other-node-hint',
  'other-zone-hint',
)
const problem: Shape<Problem> = object({
  code: string,
  about: oneOf('object', 'setting', 'node', 'configuration'),
  subject: string,
  field: optional(string),
  message: string,
})

const pass = object({
  /** `tables`, or the name of a family for its rules. */
  what: string,
  /** Seconds since the last pass ended; null when none has. */
  endedSecondsAgo: nullable(number),
  durationMs: number,
  /** Operations that the last pass applied, those that failed, and tables that it could not read. */
  applied: number,
  failed: number,
  unreadable: number,
})
export type PassView = Read<typeof pass>

/** What frontends and packet paths depend on of the node, as the daemon sees it. */
const node = object({
  name: string,
  /** null while the Node object is unknown */
  zone: nullable(string),
  ips: object({ IPv4: optional(string), IPv6: optional(string) }),
  nodePortAddresses: object({ IPv4: texts, IPv6: texts }),
  podCidrs: texts,
})

/** Of the configuration in force, what commands without a file need; names as in KubeProxyConfiguration. */
const settings = object({
  clusterCIDR: string,
  /** The scheduler of Services that choose none. */
  scheduler: string,
  strictARP: flag,
  excludeCIDRs: texts,
  fallback: oneOf('iptables', 'none'),
  /** Whether annotations of Services have an effect, in ipvs mode. */
  serviceAnnotations: flag,
})

const health = object({
  /** As /healthz answers. */
  healthy: flag,
  /** What is late or wrong; null when it is healthy. */
  reason: nullable(string),
  /** What is not done at this moment, also when that does not count yet: normal for a short time. */
  pending: list(object({ what: string, seconds: number })),
})

/** The room of the node in real servers, and what is left out because it is used up. */
const room = object({ used: number, limit: number, leftOut: object({ services: number, frontends: number }) })
export type RoomView = Read<typeof room>

/** Services claim `key` too: `others`, of very many only the first. */
const conflict = object({ key: string, owner: string, others: texts })

export const DAEMON_VIEW = object({
  format: number,
  version: string,
  pid: number,
  uptimeSeconds: number,
  /** The mode that runs, and the configured one. */
  mode,
  configuredMode: mode,
  /** Why the mode is not the configured one; null: nothing is missing, or a switch of the mode is under way. */
  fallback: nullable(object({ reason: string, message: string, remedy: string })),
  /** The firewall of ipvs mode and why it was chosen; null: iptables mode. Absent: an earlier version. */
  firewall: optional(nullable(object({ name: oneOf('iptables', 'nftables'), configured: string, reason: string }))),
  virtualAddresses: oneOf('addresses', 'routes'),
  families: list(family),
  node,
  settings,
  health,
  /** What is not listed yet; passes wait for it. */
  awaiting: texts,
  /** `conflicts`: claims that lost their address and port to another Service. */
  counts: object({ services: number, frontends: number, conflicts: number, draining: number, problems: number }),
  room,
  passes: list(pass),
  /** The first of them; `counts.problems` is the number of all. */
  problems: list(problem),
  /** The first addresses that several Services claim. */
  conflicts: list(conflict),
})
export type DaemonView = Read<typeof DAEMON_VIEW>

/** `servicePort`: `namespace/name:port` of the Service port that answers at the key. */
const frontendName = object({ key: string, servicePort: string, roles })
export type FrontendName = Read<typeof frontendName>

/** A part of all frontends, in the order of their keys' first appearance. `more`: false on the last page. */
export const NAMES_PAGE = object({ format: number, frontends: list(frontendName), more: flag })
export type NamesPage = Read<typeof NAMES_PAGE>

const endpoint = object({
  /** `10.244.0.1:8080` */
  key: string,
  node: string,
  /** It runs on the daemon's node. */
  isLocal: flag,
  ready: flag,
  serving: flag,
  terminating: flag,
  zoneHints: texts,
  nodeHints: texts,
  /** For a cluster IP and for all other addresses. */
  internal: verdict,
  external: verdict,
})
export type EndpointView = Read<typeof endpoint>

const frontend = object({
  key: string,
  roles,
  /** Whether the address is a virtual IP of this node: on kube-ipvs0 or as a local route. */
  isBound: flag,
  /** Which verdicts apply. */
  verdicts: oneOf('internal', 'external'),
  /** The Service that answers here: another one when this Service's claim has lost. */
  owner: string,
  /** The other Services that claim the key, in the order in which they would follow; of very many only the first. */
  others: texts,
  /** loadBalancerSourceRanges that apply; null: every source may connect. */
  sourceRanges: nullable(texts),
})
export type FrontendView = Read<typeof frontend>

/** One port of the Service in one family. */
const servicePort = object({
  /** `namespace/name:port` */
  name: string,
  family,
  protocol,
  port: number,
  internalPolicy: policy,
  externalPolicy: policy,
  /** 0: no affinity */
  affinityTimeoutSeconds: number,
  /** 0: none */
  healthCheckNodePort: number,
  endpoints: list(endpoint),
  frontends: list(frontend),
})
export type ServicePortView = Read<typeof servicePort>

const serviceView = object({
  namespace: string,
  name: string,
  ports: list(servicePort),
  problems: list(problem),
  /** Its annotations that kube-ipvs knows, unchecked; `problems` says which have no effect. */
  annotations: list(pair(string, string)),
  /** Endpoints and frontends that were left out, because the answer would be too long. */
  omitted: number,
  /** What is wanted in the kernel for the frontends that it has won, and how many rows were left out. */
  wanted: list(WANTED),
  omittedRows: number,
  /** null: they are switched off. Absent: an earlier version. */
  relays: optional(nullable(list(RELAY_VIEW))),
})
export type ServiceView = Read<typeof serviceView>

/** The Service of that name, or those that have won the address and port; empty: there is none. */
export const SERVICES_VIEW = object({ format: number, services: list(serviceView) })
export type ServicesView = Read<typeof SERVICES_VIEW>

/** An item that the kernel lacks, has otherwise than it is wanted, or has although nothing wants it. */
const wrongRow = object({ table: string, key: string, state: oneOf('missing', 'extra', 'differs') })
export type WrongRow = Read<typeof wrongRow>

/** The rows of the plan, as `kube-ipvs diff` would find them, by the state of their items. */
export const ROWS_VIEW = object({
  format: number,
  tables: list(
    object({ table: string, missing: number, extra: number, differs: number, present: number, draining: number }),
  ),
  /** Tables whose items the daemon reads at this moment, and that are not counted. */
  unread: texts,
  /** The first of them. */
  wrong: list(wrongRow),
})
export type RowsView = Read<typeof ROWS_VIEW>

/** A real server that gets no new connections and has not been removed yet. */
const drain = object({
  virtualServer: string,
  /** `10.244.0.1:8080` */
  realServer: string,
  /** `namespace/name:port`; null when no Service owns the virtual server any more. */
  servicePort: nullable(string),
  /** Since this daemon noticed it. */
  seconds: number,
  /** null: no deadline */
  deadlineSeconds: nullable(number),
})
export type DrainView = Read<typeof drain>

/** `omitted`: drains that were left out, because the answer would be too long. */
export const DRAINS_VIEW = object({ format: number, drains: list(drain), omitted: number })
export type DrainsView = Read<typeof DRAINS_VIEW>

/** A real server that does not answer: it gets no new connections, only a few (limited), or one (on-trial). */
const outlier = object({
  virtualServer: string,
  realServer: string,
  /** `namespace/name:port`; null when no Service owns the virtual server any more. */
  servicePort: nullable(string),
  state: oneOf('limited', 'suspect', 'on-trial'),
  /** Since it is in this state. */
  seconds: number,
  /** Until it gets a connection again; null: not a suspect. */
  nextTrialSeconds: nullable(number),
})
export type OutlierView = Read<typeof outlier>

/** `omitted`: those that were left out, because the answer would be too long. */
export const OUTLIERS_VIEW = object({ format: number, outliers: list(outlier), omitted: number })
export type OutliersView = Read<typeof OUTLIERS_VIEW>

/** The endpoints of a pod, from the EndpointSlices that name it. */
export const POD_VIEW = object({
  format: number,
  /** IPs of the pod, each once. Empty: no EndpointSlice names it. */
  addresses: texts,
  /**
   * The same with the ports of the EndpointSlices: `10.244.0.1:8080`. Pods in the network of their
   * node share its IP.
   */
  endpoints: texts,
})
export type PodView = Read<typeof POD_VIEW>

/** Connections of clients to endpoints through Services, as the kernel of the daemon's node counts them. */
export const CONNECTIONS_VIEW = object({
  format: number,
  /** TCP and SCTP connections that are established or being established. */
  active: number,
  /** Those that are closing, or were closed a short time ago. */
  inactive: number,
  /** null: not asked for, or the kernel does not list its flows. */
  udp: nullable(number),
})
export type ConnectionsView = Read<typeof CONNECTIONS_VIEW>
