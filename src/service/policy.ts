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
    const hasFew = candidates.length <= FEW_CANDIDATES
    if (hasFew && !candidates.some(({ source }) => isLocalTo(source, nodeName))) return none
    const key = `${protocol} ${nodeName}`
    const known = lists.get(candidates)
    const list = known?.get(key) ?? hairpinsOf(frontend, nodeName).map(of)
    if (known === undefined) lists.set(candidates, new Map([[key, list]]))
    else known.set(key, list)
    return list
  }
}

/** The roles of one frontend, without `hairpin`, in the order of ROLES. */
export function rolesOf(frontend: AddressFrontend): readonly Role[] {
  const { roles, selection, servicePort, firewall } = frontend
  const { service, acceptsHealthChecks } = servicePort
  const found: Role[] = []
  const local = selection.policy === 'Local'
  if (roles.includes('LoadBalancerVip')) {
    if (firewall?.allowsNode === true) found.push('source-address')
    if (firewall !== undefined && firewall.ranges.length > 0) found.push('source-range')
    if (firewall !== undefined) found.push('restricted')
    if (local) found.push('load-balancer-local')
    found.push('load-balancer')
  }
  if (roles.includes('ExternalIP')) found.push(local ? 'external-ip-local' : 'external-ip')
  if (roles.includes('ClusterIP')) found.push('cluster-ip')
  if (roles.includes('NodePort')) {
    if (local) found.push('node-port-local')
    found.push('node-port')
  }
  if (service.healthCheckNodePort !== 0 && acceptsHealthChecks) found.push('health-check')
  if (frontend.bind) found.push('virtual-ip')
  return found
}

/**
 * The memberships of one frontend, without `hairpinsOf`, in the order of ROLES. Those of the whole
 * Service (its health check node port) come from each of its frontends, so that they stay until the
 * last one is removed.
 */
export function membershipsOf(frontend: AddressFrontend): readonly Membership[] {
  const { address, port, servicePort, firewall } = frontend
  const { family, protocol, service } = servicePort
  const found: Membership[] = []
  const here = { family, address, port, protocol }
  for (const role of rolesOf(frontend))
    switch (role) {
      case 'source-address':
        found.push({ role, ...here, second: address })
        break
      case 'source-range':
        for (const range of firewall?.ranges ?? []) found.push({ role, ...here, second: formatCidr(range) })
        break
      case 'health-check':
        found.push({ role, family, port: service.healthCheckNodePort })
        break
      case 'virtual-ip':
        found.push({ role, family, address })
        break
      default:
        found.push({ role, family, address, port, protocol })
    }
  return found
}
