/**
 * What a frontend needs beside its virtual server, as values: each says that an address, port and
 * protocol have a role. They are what a firewall is told; by which sets or rules it serves a role,
 * only the firewall knows. They depend only on the frontend and the node's name.
 */
import type { IpFamily, Protocol } from '../values/protocol.ts'
import { formatCidr } from '../values/cidr.ts'
import { isLocalTo } from './endpoints.ts'
import type { AddressFrontend } from './frontends.ts'

/**
 * In the order in which memberships may be added: roles that permit traffic or keep the source
 * address before more general ones. That of virtual IPs is last, because what is in no other role
 * is refused there.
 */
export const ROLES = [
  /** A pod that reaches itself through its Service is masqueraded. */
  'hairpin',
  /** The address in `second` may connect to a restricted one. */
  'source-address',
  /** The network in `second` may connect to a restricted one. */
  'source-range',
  /** Only clients that one of the two roles before permits may connect. */
  'restricted',
  /** Clients keep their address: endpoints are on this node. */
  'load-balancer-local',
  /** Clients are masqueraded, unless the role before says otherwise. */
  'load-balancer',
  'external-ip-local',
  'external-ip',
  /** Clients that are no pods are masqueraded. */
  'cluster-ip',
  'node-port-local',
  'node-port',
  /** This node accepts health checks of load balancers. */
  'health-check',
  /** Every other port of the address is refused. */
  'virtual-ip',
] as const

export type Role = (typeof ROLES)[number]

export interface Membership {
  readonly role: Role
  readonly family: IpFamily
  /** Absent: every address of the node. */
  readonly address?: string
  /** Absent: every port. */
  readonly port?: number
  /** Absent: TCP, or every protocol where there is no port. */
  readonly protocol?: Protocol
  /** The source: an address, or a network as CIDR. */
  readonly second?: string
}

/**
 * Those of its endpoints on this node. Frontends with the same candidates have the same ones, and
 * there may be thousands of both.
 */
function hairpinsOf({ servicePort }: AddressFrontend, nodeName: string): readonly Membership[] {
  const { family, protocol, candidates } = servicePort
  return candidates
    .filter(({ source }) => isLocalTo(source, nodeName))
    .map(({ address, port }) => ({ role: 'hairpin', family, address, port, protocol, second: address }))
}

/** Of so few candidates it is not kept that none has a hairpin: most Services have few, and none on this node. */
const FEW_CANDIDATES = 64

/**
 * Makes a function that returns what a firewall has for the hairpins of a frontend: one list for all
 * frontends with the same candidates. @param of what it has for one
 */
export function sharedHairpins<Entry>(
  of: (hairpin: Membership) => Entry,
): (frontend: AddressFrontend, nodeName: string) => readonly Entry[] {
  const lists = new WeakMap<AddressFrontend['servicePort']['candidates'], Map<string, readonly Entry[]>>()
  const none: readonly Entry[] = []
  return (frontend, nodeName) => {
    const { candidates, protocol } = frontend.servicePort
    const key = `${protocol} ${nodeName}`
    const known = lists.get(candidates)
    const list = known?.get(key) ?? hairpinsOf(frontend, nodeName).map(of)
    if (list.length === 0 && candidates.length <= FEW_CANDIDATES) return none
    if (known === undefined) lists.set(candidates, new Map([[key, list]]))
    else known.set(key, list)
    return list
  }
}

/**
 * The memberships of one frontend, without `hairpinsOf`, in the order of ROLES. Those of the whole
 * Service (its health check node port) come from each of its frontends, so that they stay until the
 * last one is removed.
 */
export function membershipsOf(frontend: AddressFrontend): readonly Membership[] {
  const { address, port, roles, selection, servicePort, firewall } = frontend
  const { family, protocol, service, acceptsHealthChecks } = servicePort
  const found: Membership[] = []
  const here = { family, address, port, protocol }
  const put = (role: Role): void => void found.push({ role, family, address, port, protocol })
  const local = selection.policy === 'Local'
  if (roles.includes('LoadBalancerVip')) {
    if (firewall?.allowsNode === true) found.push({ role: 'source-address', ...here, second: address })
    for (const range of firewall?.ranges ?? []) found.push({ role: 'source-range', ...here, second: formatCidr(range) })
    if (firewall !== undefined) put('restricted')
    if (local) put('load-balancer-local')
    put('load-balancer')
  }
  if (roles.includes('ExternalIP')) put(local ? 'external-ip-local' : 'external-ip')
  if (roles.includes('ClusterIP')) put('cluster-ip')
  if (roles.includes('NodePort')) {
    if (local) put('node-port-local')
    put('node-port')
  }
  if (service.healthCheckNodePort !== 0 && acceptsHealthChecks)
    found.push({ role: 'health-check', family, port: service.healthCheckNodePort })
  if (frontend.bind) found.push({ role: 'virtual-ip', family, address })
  return found
}
