/**
 * Virtual servers and real servers as IPVS knows them, in our own terms, their keys, and what can
 * be done to them. Bytes exist only in the codecs. Desired and live state are compared as
 * `VirtualServer`: a field that is added here is part of the diff, so it must be read from the
 * kernel too. Counters and connections are never in it.
 */
import { type FrontendKey, frontendKey } from '../service/frontends.ts'
import type { Direction } from '../sync/table.ts'
import { formatEndpoint } from '../values/address.ts'
import type { IpFamily, Protocol } from '../values/protocol.ts'

/**
 * `10.96.0.1:443/tcp`, IPv6 in brackets: identity of a virtual server, and the key of the frontend
 * it is rendered from.
 */
export type VirtualServerKey = FrontendKey
/** `10.244.0.5:8080`, IPv6 in brackets: identity of a real server inside its virtual server. */
export type RealServerKey = string

/** IP_VS_CONN_F_FWD_MASK of linux/ip_vs.h: masquerade 0, local 1, tunnel 2, route 3, bypass 4; unknown for the rest. */
export type ForwardingMethod = 'masquerade' | 'local' | 'tunnel' | 'route' | 'bypass' | 'unknown'

export interface RealServer {
  readonly address: string
  readonly port: number
  /** 0 = quiescent: it keeps its connections and gets no new ones. */
  readonly weight: number
  readonly forwarding: ForwardingMethod
  /** IPVS_DEST_ATTR_U_THRESH, IPVS_DEST_ATTR_L_THRESH: connection limits, 0 = none. We never set any. */
  readonly upperThreshold: number
  readonly lowerThreshold: number
}

export interface VirtualServer {
  readonly family: IpFamily
  readonly address: string
  readonly port: number
  readonly protocol: Protocol
  /** Name of the kernel's scheduler module without `ip_vs_`: `rr`, `lc`, `sh`, `mh` … */
  readonly scheduler: string
  /**
   * IP_VS_SVC_F_* of linux/ip_vs.h without IP_VS_SVC_F_HASHED (0x2), which only the kernel sets:
   * 0x1 persistent, 0x4 one-packet, 0x8 / 0x10 / 0x20 scheduler flags 1 to 3 (`sh`, `mh`: fallback,
   * port).
   */
  readonly flags: number
  /** Persistence timeout in seconds; 0 when not persistent. */
  readonly timeoutSeconds: number
  /** Persistence granularity: IPv4 mask as a number (0xffffffff), IPv6 prefix length (128). */
  readonly netmask: number
  /** Persistence engine name; '' = none. We never set one. */
  readonly persistenceEngine: string
  /** Sorted by address text and port (compareRealServers), each once. */
  readonly realServers: readonly RealServer[]
}

/** IP_VS_SVC_F_PERSISTENT */
export const FLAG_PERSISTENT = 0x1
/** IP_VS_SVC_F_HASHED: set by the kernel on every service it lists. */
export const FLAG_HASHED = 0x2
/** IP_VS_SVC_F_ONEPACKET */
export const FLAG_ONE_PACKET = 0x4
/** IP_VS_SVC_F_SCHED1: `sh-fallback`, `mh-fallback` */
export const FLAG_SCHED_1 = 0x8
/** IP_VS_SVC_F_SCHED2: `sh-port`, `mh-port` */
export const FLAG_SCHED_2 = 0x10
/** IP_VS_SVC_F_SCHED3 */
export const FLAG_SCHED_3 = 0x20

/** The fields that identify a virtual server on the wire. */
export type VirtualServerId = Pick<VirtualServer, 'family' | 'address' | 'port' | 'protocol'>
/** A virtual server without its real servers: the content of one IPVS service message. */
export type VirtualServerFields = Omit<VirtualServer, 'realServers'>

/** `10.96.0.1:443/tcp` or `[fd00::1]:443/tcp`. */
export function virtualServerKey(id: Pick<VirtualServerId, 'address' | 'port' | 'protocol'>): VirtualServerKey {
  return frontendKey(id.address, id.port, id.protocol)
}

/** `10.244.0.5:8080` or `[fd00::5]:8080`. */
export function realServerKey(server: Pick<RealServer, 'address' | 'port'>): RealServerKey {
  return formatEndpoint(server.address, server.port)
}

/** The address part of a virtual or real server key. */
export function addressOfKey(key: string): string {
  const colon = key.lastIndexOf(':')
  return key.startsWith('[') ? key.slice(1, colon - 1) : key.slice(0, colon)
}

/**
 * Order of real servers inside a virtual server: by the text of the address, then by port. It
 * allocates nothing, because it is called often.
 */
export function compareRealServers(a: RealServer, b: RealServer): number {
  if (a.address !== b.address) return a.address < b.address ? -1 : 1
  return a.port - b.port
}

export type VirtualServerOperation =
  | { readonly kind: 'add-virtual-server'; readonly key: VirtualServerKey; readonly server: VirtualServer }
  | { readonly kind: 'edit-virtual-server'; readonly key: VirtualServerKey; readonly server: VirtualServer }
  | { readonly kind: 'delete-virtual-server'; readonly key: VirtualServerKey; readonly server: VirtualServer }
  | RealServerOperation

/** `server` names the virtual server; its own fields are not written. */
export interface RealServerOperation {
  readonly kind: 'add-real-server' | 'edit-real-server' | 'delete-real-server'
  readonly key: VirtualServerKey
  readonly server: VirtualServer
  readonly realServer: RealServer
}

/**
 * Everything that reduces capacity is a removal, so that no prefix of a plan leaves a virtual
 * server empty that has real servers before and after.
 */
export function directionOf(op: VirtualServerOperation): Direction {
  switch (op.kind) {
    case 'add-virtual-server':
    case 'edit-virtual-server':
    case 'add-real-server':
      return 'add'
    case 'edit-real-server':
      return op.realServer.weight === 0 ? 'remove' : 'add'
    case 'delete-virtual-server':
    case 'delete-real-server':
      return 'remove'
  }
}
