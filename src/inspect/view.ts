/**
 * What a running daemon tells about itself over its local socket: the shapes of the answers, which are JSON over HTTP. The kernel
 * cannot tell any of this: names of Services, verdicts on endpoints, owners of addresses, drains, problems. Times are numbers of
 * seconds before the answer, because the daemon and the command that asks need not have the same clock.
 */
import type { ProxyMode } from '../config/types.ts'
import type { FrontendKey, FrontendRole } from '../service/frontends.ts'
import type { Verdict } from '../service/endpoints.ts'
import type { TrafficPolicy } from '../service/objects.ts'
import type { WantedObject } from '../explain/wanted-objects.ts'
import type { Problem } from '../values/errors.ts'
import type { IpFamily, Protocol } from '../values/protocol.ts'

/** Changes when an older command would misread an answer. A command refuses answers of another format than its own. */
export const VIEW_FORMAT = 1

/** Paths of the answers. */
export const VIEW_PATH = {
  /** DaemonView */
  daemon: '/v1/daemon',
  /** NamesPage; parameters `after` (the last key of the page before) and `limit`, at most MAX_PAGE. */
  names: '/v1/names',
  /** ServiceView; parameter `service` (`namespace/name`). 404 when there is no such Service. */
  service: '/v1/service',
  /** ObjectsView; parameter `service` (`namespace/name`). */
  objects: '/v1/objects',
  /** ClaimsView; parameter `key` (a FrontendKey). */
  claims: '/v1/claims',
  /** DrainsView */
  drains: '/v1/drains',
  /** PodView; parameter `pod` (`namespace/name`). */
  pod: '/v1/pod',
  /** ConnectionsView; parameters `to` (an IP or `IP:port`, up to MAX_TARGETS times) and `udp` (`1`: count its flows too). */
  connections: '/v1/connections',
} as const

/** The most frontends in one NamesPage. */
export const MAX_PAGE = 2000

export interface PassView {
  /** `tables`, or the name of a family for its rules. */
  readonly what: string
  /** Seconds since the last pass ended; null when none has. */
  readonly endedSecondsAgo: number | null
  readonly durationMs: number
  /** Operations that the last pass applied, those that failed, and tables that it could not read. */
  readonly applied: number
  readonly failed: number
  readonly unreadable: number
}

/** What frontends and packet paths depend on of the node, as the daemon sees it. */
export interface NodeViewOfDaemon {
  readonly name: string
  /** null while the Node object is unknown */
  readonly zone: string | null
  readonly ips: { readonly [family in IpFamily]?: string }
  readonly nodePortAddresses: Readonly<Record<IpFamily, readonly string[]>>
  readonly podCidrs: readonly string[]
}

/** Of the configuration in force; names as in KubeProxyConfiguration. */
export interface SettingsView {
  readonly masqueradeAll: boolean
  readonly masqueradeBit: number
  readonly localhostNodePorts: boolean
  readonly tcpBeLiberal: boolean
  readonly clusterCIDR: string
  readonly detectLocalMode: string
  readonly bridgeInterface: string
  readonly interfaceNamePrefix: string
  /** The scheduler of Services that choose none. */
  readonly scheduler: string
  /** Whether annotations of Services have an effect, in ipvs mode. */
  readonly serviceAnnotations: boolean
  /** null: no deadline */
  readonly drainDeadlineSeconds: number | null
}

export interface HealthView {
  /** As /healthz answers. */
  readonly healthy: boolean
  /** What is late or wrong; null when it is healthy. */
  readonly reason: string | null
  /** What is not done at this moment, also when that does not count yet: normal for a short time. */
  readonly pending: readonly { readonly what: string; readonly seconds: number }[]
}

export interface DaemonView {
  readonly format: number
  readonly version: string
  readonly pid: number
  readonly uptimeSeconds: number
  /** The mode that runs, and the configured one. */
  readonly mode: ProxyMode
  readonly configuredMode: ProxyMode
  /** Why the mode is not the configured one; null: nothing is missing, or a switch of the mode is under way. */
  readonly fallback: { readonly reason: string; readonly message: string; readonly remedy: string } | null
  readonly virtualAddresses: 'addresses' | 'routes'
  readonly families: readonly IpFamily[]
  readonly node: NodeViewOfDaemon
  /** The settings that decide how packets are treated. */
  readonly settings: SettingsView
  readonly health: HealthView
  /** What is not listed yet; passes wait for it. */
  readonly awaiting: readonly string[]
  readonly counts: {
    readonly services: number
    readonly frontends: number
    /** Claims that lost their address and port to another Service. */
    readonly conflicts: number
    readonly draining: number
    readonly problems: number
  }
  /** The room of the node in real servers, and what is left out because it is used up. Absent: the daemon is older. */
  readonly room?: RoomView
  readonly passes: readonly PassView[]
  /** The first of them; `counts.problems` is the number of all. */
  readonly problems: readonly Problem[]
  /** The first addresses that several Services claim. */
  readonly conflicts: readonly ConflictView[]
}

export interface RoomView {
  readonly used: number
  readonly limit: number
  readonly leftOut: { readonly services: number; readonly frontends: number }
}

export interface ConflictView {
  readonly key: FrontendKey
  readonly owner: string
  /** Services that claim the key too; of very many only the first. */
  readonly others: readonly string[]
}

/** A part of all frontends, in the order of their keys' first appearance. */
export interface NamesPage {
  readonly format: number
  readonly frontends: readonly FrontendName[]
  /** False: the last page. */
  readonly more: boolean
}

export interface FrontendName {
  readonly key: FrontendKey
  /** `namespace/name:port` of the Service port that answers at the key. */
  readonly servicePort: string
  readonly roles: readonly FrontendRole[]
}

export interface ServiceView {
  readonly format: number
  readonly namespace: string
  readonly name: string
  readonly ports: readonly ServicePortView[]
  readonly problems: readonly Problem[]
  /** Endpoints and frontends that were left out, because the answer would be too long. */
  readonly omitted: number
  /** Its annotations that kube-ipvs knows, unchecked; `problems` says which have no effect. */
  readonly annotations: readonly (readonly [name: string, value: string])[]
}

/** What is wanted in the kernel for one Service. */
export interface ObjectsView {
  readonly format: number
  readonly objects: readonly WantedObject[]
  /** Objects that were left out, because the answer would be too long. */
  readonly omitted: number
}

/** One port of the Service in one family. */
export interface ServicePortView {
  /** `namespace/name:port` */
  readonly name: string
  readonly family: IpFamily
  readonly protocol: Protocol
  readonly port: number
  readonly internalPolicy: TrafficPolicy
  readonly externalPolicy: TrafficPolicy
  /** 0: no affinity */
  readonly affinityTimeoutSeconds: number
  /** 0: none */
  readonly healthCheckNodePort: number
  readonly endpoints: readonly EndpointView[]
  readonly frontends: readonly FrontendView[]
}

export interface EndpointView {
  /** `10.244.0.1:8080` */
  readonly key: string
  readonly node: string
  /** It runs on the daemon's node. */
  readonly isLocal: boolean
  readonly ready: boolean
  readonly serving: boolean
  readonly terminating: boolean
  readonly zoneHints: readonly string[]
  readonly nodeHints: readonly string[]
  /** For a cluster IP and for all other addresses. */
  readonly internal: Verdict
  readonly external: Verdict
}

export interface FrontendView {
  readonly key: FrontendKey
  readonly roles: readonly FrontendRole[]
  /** Whether the address is a virtual IP of this node: on kube-ipvs0 or as a local route. */
  readonly isBound: boolean
  /** Which verdicts apply. */
  readonly verdicts: 'internal' | 'external'
  /** The Service that answers here: another one when this Service's claim has lost. */
  readonly owner: string
  /** The other Services that claim the key, in the order in which they would follow; of very many only the first. */
  readonly others: readonly string[]
  /** loadBalancerSourceRanges that apply; null: every source may connect. */
  readonly sourceRanges: readonly string[] | null
}

/** Who claims one address, port and protocol. */
export interface ClaimsView {
  readonly format: number
  readonly key: FrontendKey
  /** Services, the owner first; of very many only the first. Empty when nobody claims the key. */
  readonly services: readonly string[]
}

export interface DrainsView {
  readonly format: number
  readonly drains: readonly DrainView[]
  /** Drains that were left out, because the answer would be too long. */
  readonly omitted: number
}

/** A real server that gets no new connections and has not been removed yet. */
export interface DrainView {
  readonly virtualServer: FrontendKey
  /** `10.244.0.1:8080` */
  readonly realServer: string
  /** `namespace/name:port`; null when no Service owns the virtual server any more. */
  readonly servicePort: string | null
  /** Since this daemon noticed it. */
  readonly seconds: number
  /** null: no deadline */
  readonly deadlineSeconds: number | null
}

/** The endpoints of a pod, from the EndpointSlices that name it. */
export interface PodView {
  readonly format: number
  /** IPs of the pod, each once. Empty: no EndpointSlice names it. */
  readonly addresses: readonly string[]
  /** The same with the ports of the EndpointSlices: `10.244.0.1:8080`. Pods in the network of their node share its IP. */
  readonly endpoints: readonly string[]
}

/** The most parameters `to` of one question about connections. */
export const MAX_TARGETS = 64

/** Connections of clients to endpoints through Services, as the kernel of the daemon's node counts them. */
export interface ConnectionsView {
  readonly format: number
  /** TCP and SCTP connections that are established or being established. */
  readonly active: number
  /** Those that are closing, or were closed a short time ago. */
  readonly inactive: number
  /** null: not asked for, or the kernel does not list its flows. */
  readonly udp: number | null
}

/** The body of every answer but 200. */
export interface RefusalView {
  readonly format: number
  readonly error: { readonly code: RefusalCode; readonly message: string }
}

/**
 * `no-such-service`; `starting`: there is no proxy yet; `gone`: the key of a page exists no more, begin again; `unreadable`: the source
 * of objects does not answer. The others are mistakes of the client.
 */
export type RefusalCode =
  | 'no-such-service'
  | 'starting'
  | 'gone'
  | 'unreadable'
  | 'bad-parameter'
  | 'unknown-path'
  | 'wrong-method'
