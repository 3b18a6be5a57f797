/**
 * What the kernel of a node has, as far as it decides the path of a packet. All of it is plain
 * values; what would be too much to read at once (a route for every address, the real servers of
 * every virtual server) is asked for by a prediction: it returns its questions, and is made again
 * with the answers.
 */
import type { WholeTables } from '../iptables/whole-tables.ts'
import type { RealServer, VirtualServerFields, VirtualServerKey } from '../ipvs/types.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { PrivateRules } from './private-rules.ts'
import type { PacketSet } from './sets.ts'
import type { RouteDecision } from './types.ts'

export interface KernelPicture {
  /** Rules of the back end of iptables that the node uses; absent for a family whose rules cannot be read. */
  readonly rules: { readonly [family in IpFamily]?: WholeTables }
  /** The private tables of the nftables firewall; absent for a family that has none. */
  readonly privateTables: { readonly [family in IpFamily]?: PrivateRules }
  /** Sets by name. A set that rules name and that is not here cannot be judged. */
  readonly sets: ReadonlyMap<string, PacketSet>
  /** Without their real servers. */
  readonly virtualServers: ReadonlyMap<VirtualServerKey, VirtualServerFields>
  /** Firewall marks of virtual servers that have no address, never ours. */
  readonly fwmarks: ReadonlySet<number>
  /** net/ipv4/vs/conntrack: without it rules of nat do not see what IPVS sends. */
  readonly ipvsTracksConnections: boolean
  /** net/ipv4/ip_forward and net/ipv6/conf/all/forwarding */
  readonly forwards: Readonly<Record<IpFamily, boolean>>
  /** net/bridge/bridge-nf-call-iptables and -ip6tables: rules see what passes a bridge. */
  readonly seesBridged: Readonly<Record<IpFamily, boolean>>
  readonly interfaces: ReadonlyMap<string, PictureInterface>
  /** Addresses that this node answers for and other nodes too: those of kube-ipvs0, and local routes of kube-ipvs. */
  readonly virtualIps: ReadonlySet<string>
  /**
   * What may decide about packets and was not read, in plain words: rules of nftables, the other
   * back end of iptables.
   */
  readonly limits: readonly string[]
}

export interface PictureInterface {
  /** Kind of the link: `veth`, `bridge`; '' for hardware. */
  readonly kind: string
  /** Its addresses of both families, in the kernel's order, without those of scope host and link. */
  readonly addresses: readonly string[]
  /** Whether a route with a gateway leads out of it: what is its neighbour is then another machine, not a pod. */
  readonly isUplink: boolean
}

/** A question to the routing of the kernel, RTM_GETROUTE. */
export interface RouteQuestion {
  readonly destination: string
  /** Undefined: the kernel chooses the source. */
  readonly source: string | undefined
  /** The interface at which the packet arrives; undefined for one of this node. */
  readonly arrivesAt: string | undefined
  readonly mark: number
}

export interface RouteAnswer {
  readonly decision: RouteDecision
  /** The source that the kernel chooses; undefined for a packet that arrives. */
  readonly source: string | undefined
}

/** What predictions have asked so far, answered. */
export interface Answers {
  /** By routeKey. */
  readonly routes: ReadonlyMap<string, RouteAnswer>
  readonly realServers: ReadonlyMap<VirtualServerKey, readonly RealServer[]>
}

/** What a prediction must know before it is complete. */
export interface Questions {
  /** By routeKey. */
  readonly routes: ReadonlyMap<string, RouteQuestion>
  readonly realServers: ReadonlySet<VirtualServerKey>
}

/** Identity of a question: `10.244.0.1 from 10.0.2.100 at eth0 mark 16384`. */
export function routeKey({ destination, source, arrivesAt, mark }: RouteQuestion): string {
  return `${destination} from ${source ?? 'any'} at ${arrivesAt ?? 'this node'} mark ${mark}`
}
