/** What follows for traffic when a frontend's entry is missing in a set, or is there without being wanted. */
import type { SetRole } from '../../ipset/catalogue.ts'

interface SetWords {
  readonly absence: string
  readonly excess: string
}

const LOCAL: SetWords = {
  absence: 'clients from outside are masqueraded, so that endpoints see the address of this node instead of theirs',
  excess: 'clients from outside keep their address, and answers of endpoints on other nodes do not come back',
}
const MASQUERADED: SetWords = {
  absence: 'clients from outside are not masqueraded, so that answers of endpoints on other nodes do not come back',
  excess: 'clients are masqueraded that should keep their address',
}

const WORDS: Readonly<Record<SetRole, SetWords>> = {
  'LOOP-BACK': {
    absence: 'a pod of this node that reaches itself through the Service gets no answer',
    excess: 'a pod that reaches itself sees the address of this node',
  },
  'LOAD-BALANCER-SOURCE-IP': {
    absence: 'this node itself may not connect to the address',
    excess: 'this node itself may connect although no source range permits it',
  },
  'LOAD-BALANCER-SOURCE-CIDR': {
    absence: 'clients of this source range are dropped',
    excess: 'clients of this source range may connect although the Service does not permit them',
  },
  'LOAD-BALANCER-FW': {
    absence: 'source ranges are not enforced: every client may connect',
    excess: 'clients are dropped unless a source range permits them',
  },
  'LOAD-BALANCER-LOCAL': LOCAL,
  'LOAD-BALANCER': MASQUERADED,
  'EXTERNAL-IP-LOCAL': LOCAL,
  'EXTERNAL-IP': MASQUERADED,
  'CLUSTER-IP': {
    absence: 'clients that are no pods are not masqueraded, and a port of this address may be refused',
    excess: 'clients that are no pods are masqueraded',
  },
  'NODE-PORT-LOCAL-TCP': LOCAL,
  'NODE-PORT-TCP': MASQUERADED,
  'NODE-PORT-LOCAL-UDP': LOCAL,
  'NODE-PORT-UDP': MASQUERADED,
  'NODE-PORT-LOCAL-SCTP-HASH': LOCAL,
  'NODE-PORT-SCTP-HASH': MASQUERADED,
  'HEALTH-CHECK-NODE-PORT': {
    absence: 'a firewall of this node may drop health checks of load balancers',
    excess: 'this node accepts health checks that no Service has',
  },
  'IPVS-IPS': {
    absence: 'ports of this address that no Service has reach processes of this node',
    excess: 'ports of this address are refused',
  },
}

export function absenceMeans(role: SetRole): string {
  return WORDS[role].absence
}

export function excessMeans(role: SetRole): string {
  return WORDS[role].excess
}
