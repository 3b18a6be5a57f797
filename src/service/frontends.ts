/**
 * What this node must answer for. A Service port has one frontend for each place at which clients
 * connect to it: an address, port and protocol, or a node port at every address of the node.
 * `contribution.ts` makes the frontends.
 */
import { familyOf, formatEndpoint, parseEndpoint } from '../values/address.ts'
import { sameList } from '../values/lists.ts'
import type { IpFamily, Protocol } from '../values/protocol.ts'
import type { Selection } from './endpoints.ts'
import { sameServicePort, type ServicePort } from './service-port.ts'
import type { SourceRanges } from './source-ranges.ts'

/**
 * `10.96.0.1:443/tcp`, IPv6 in brackets; `*:30080/tcp` and `[*]:30080/tcp` are node ports at every
 * address of the node.
 */
export type FrontendKey = string

/** What an address can be to its Service, in the order in which a frontend names its roles. */
export const FRONTEND_ROLES = ['ClusterIP', 'NodePort', 'LoadBalancerVip', 'ExternalIP'] as const
export type FrontendRole = (typeof FRONTEND_ROLES)[number]

/** One place at which this node answers for a Service port. */
export interface Frontend {
  readonly key: FrontendKey
  /** Shared by all frontends of the port. */
  readonly servicePort: ServicePort
  /**
   * Everything the address is to the Service port, at least one role, in the order of
   * FRONTEND_ROLES: an address that is in `status.loadBalancer.ingress` and in `spec.externalIPs`
   * is both, as in kube-proxy.
   */
  readonly roles: readonly FrontendRole[]
  /** undefined: a node port that answers at every address of the node (NodePortFrontends 'every-address'). */
  readonly address: string | undefined
  /** The Service's port; the node port when the address is nothing but a node port's. */
  readonly port: number
  /**
   * Whether the address belongs on kube-ipvs0: not for a node port alone, and never an address that
   * the node itself has.
   */
  readonly bind: boolean
  /**
   * Endpoints in use: `servicePort.internal` for frontends that are only a ClusterIP,
   * `servicePort.external` for all others.
   */
  readonly selection: Selection
  /** The sources that may connect; undefined: every source. Only a LoadBalancerVip has a firewall. */
  readonly firewall: SourceRanges | undefined
}

/** A frontend of one address, as ipvs mode has them. */
export interface AddressFrontend extends Frontend {
  readonly address: string
}

export function hasAddress(frontend: Frontend): frontend is AddressFrontend {
  return frontend.address !== undefined
}

/** Whether one of these frontends has the address; while there is none yet, every address may be one of a Service. */
export function mayServe(keys: Iterable<FrontendKey>, address: string): boolean {
  const start = address.includes(':') ? `[${address}]:` : `${address}:`
  let isEmpty = true
  for (const key of keys) {
    if (key.startsWith(start)) return true
    isEmpty = false
  }
  return isEmpty
}

/** `10.96.0.1:443/tcp` */
export function frontendKey(address: string, port: number, protocol: Protocol): FrontendKey {
  return `${formatEndpoint(address, port)}/${protocol}`
}

/** What a key made by `frontendKey` was made from. */
export function parseFrontendKey(key: FrontendKey): {
  readonly family: IpFamily
  readonly address: string
  readonly port: number
  readonly protocol: Protocol
} {
  const slash = key.lastIndexOf('/')
  const { address, port } = parseEndpoint(key.slice(0, slash))
  return { family: familyOf(address), address, port, protocol: key.slice(slash + 1) as Protocol }
}

const EVERY_ADDRESS: Readonly<Record<IpFamily, string>> = { IPv4: '*:', IPv6: '[*]:' }

/** `*:30080/tcp`, of IPv6 `[*]:30080/tcp`: the key of a node port at every address of the node. */
export function nodePortKey(family: IpFamily, port: number, protocol: Protocol): FrontendKey {
  return `${EVERY_ADDRESS[family]}${port}/${protocol}`
}

/** The family of any frontend's key. */
export function familyOfKey(key: FrontendKey): IpFamily {
  return key.startsWith('[') ? 'IPv6' : 'IPv4'
}

/** What a key made by `nodePortKey` was made from; undefined for a key made by `frontendKey`. */
export function parseNodePortKey(key: FrontendKey): { readonly port: number; readonly protocol: Protocol } | undefined {
  const prefix = EVERY_ADDRESS[familyOfKey(key)]
  if (!key.startsWith(prefix)) return undefined
  const slash = key.lastIndexOf('/')
  return { port: Number(key.slice(prefix.length, slash)), protocol: key.slice(slash + 1) as Protocol }
}

const RANK: Readonly<Record<FrontendRole, number>> = { ClusterIP: 0, NodePort: 0, LoadBalancerVip: 1, ExternalIP: 2 }

/**
 * The rank of a frontend's claim on its key, from its best role; the lowest rank wins. The API
 * server allots cluster IPs and node ports, and each to one Service only; controllers write VIPs;
 * every user who may write a Service can write external IPs.
 */
export function claimRank({ roles }: Frontend): number {
  let best = RANK.ExternalIP
  for (const role of roles) best = Math.min(best, RANK[role])
  return best
}

/**
 * Whether two frontends of one key have the same effect on every table, health check and metric.
 * Address, selection and firewall follow from the fields that are compared.
 */
export type SameFrontend = (a: Frontend, b: Frontend) => boolean

/**
 * Makes a SameFrontend that compares two ServicePorts once for all of their frontends that it is
 * given one after another: a Service may have thousands of them, and as many endpoints.
 */
export function frontendComparison(): SameFrontend {
  let one: ServicePort | undefined
  let other: ServicePort | undefined
  let same = false
  const isSamePort = (a: ServicePort, b: ServicePort): boolean => {
    if (a !== one || b !== other) {
      same = sameServicePort(a, b)
      one = a
      other = b
    }
    return same
  }
  return (a, b) =>
    a === b ||
    (a.key === b.key && a.bind === b.bind && sameList(a.roles, b.roles) && isSamePort(a.servicePort, b.servicePort))
}
