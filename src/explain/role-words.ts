/**
 * What follows for traffic when a firewall does not know that a frontend has a role, or knows a
 * role that it does not have.
 */
import type { Role } from '../service/policy.ts'

interface RoleWords {
  readonly absence: string
  readonly excess: string
}

const LOCAL: RoleWords = {
  absence: 'clients from outside are masqueraded, so that endpoints see the address of this node instead of theirs',
  excess: 'clients from outside keep their address, and answers of endpoints on other nodes do not come back',
}
const MASQUERADED: RoleWords = {
  absence: 'clients from outside are not masqueraded, so that answers of endpoints on other nodes do not come back',
  excess: 'clients are masqueraded that should keep their address',
}

const WORDS: Readonly<Record<Role, RoleWords>> = {
  hairpin: {
    absence: 'a pod of this node that reaches itself through the Service gets no answer',
    excess: 'a pod that reaches itself sees the address of this node',
  },
  'source-address': {
    absence: 'this node itself may not connect to the address',
    excess: 'this node itself may connect although no source range permits it',
  },
  'source-range': {
    absence: 'clients of this source range are dropped',
    excess: 'clients of this source range may connect although the Service does not permit them',
  },
  restricted: {
    absence: 'source ranges are not enforced: every client may connect',
    excess: 'clients are dropped unless a source range permits them',
  },
  'load-balancer-local': LOCAL,
  'load-balancer': MASQUERADED,
  'external-ip-local': LOCAL,
  'external-ip': MASQUERADED,
  'cluster-ip': {
    absence: 'clients that are no pods are not masqueraded, and a port of this address may be refused',
    excess: 'clients that are no pods are masqueraded',
  },
  'node-port-local': LOCAL,
  'node-port': MASQUERADED,
  'health-check': {
    absence: 'a firewall of this node may drop health checks of load balancers',
    excess: 'this node accepts health checks that no Service has',
  },
  'virtual-ip': {
    absence: 'ports of this address that no Service has reach processes of this node',
    excess: 'ports of this address are refused',
  },
}

export function absenceMeans(role: Role): string {
  return WORDS[role].absence
}

export function excessMeans(role: Role): string {
  return WORDS[role].excess
}
