/**
 * Which set entries a winning frontend contributes: those of each of its roles. They are in the order in which they may be
 * added (SET_ROLES), and depend only on the frontend and the node's name. Several frontends may contribute the same entry.
 */
import { type Endpoint, isLocalTo } from '../service/endpoints.ts'
import type { AddressFrontend } from '../service/frontends.ts'
import { formatCidr } from '../values/cidr.ts'
import type { Protocol } from '../values/protocol.ts'
import { type SetRole, setName } from './catalogue.ts'
import { formatEntry, fullLength } from './entry-text.ts'
import type { SetEntry } from './types.ts'

/** Hairpin entries of lists with more candidates than this are made once for all of their frontends: there may be thousands of both. */
const MANY_CANDIDATES = 64
const HAIRPINS = new WeakMap<readonly Endpoint[], Map<string, readonly SetEntry[]>>()

/**
 * The hairpin entries of a frontend with many candidates: those of its endpoints on this node. It is one list for all frontends with the same
 * candidates. Undefined for few candidates: then `entriesOfFrontend` has them.
 */
export function sharedHairpins({ servicePort }: AddressFrontend, nodeName: string): readonly SetEntry[] | undefined {
  const { candidates, protocol } = servicePort
  if (candidates.length <= MANY_CANDIDATES) return undefined
  let made = HAIRPINS.get(candidates)
  if (made === undefined) {
    made = new Map()
    HAIRPINS.set(candidates, made)
  }
  const key = `${protocol} ${nodeName}`
  let entries = made.get(key)
  if (entries === undefined) {
    entries = hairpins(servicePort, nodeName)
    made.set(key, entries)
  }
  return entries
}

function hairpins({ family, protocol, candidates }: AddressFrontend['servicePort'], nodeName: string): SetEntry[] {
  const set = setName('LOOP-BACK', family)
  const entries: SetEntry[] = []
  for (const { address, port, source } of candidates)
    if (isLocalTo(source, nodeName))
      entries.push({ set, entry: formatEntry({ address, protocol, port, second: address }) })
  return entries
}

/**
 * Entries of one frontend, without `sharedHairpins`. Entries of a port or of the whole Service (hairpin entries of its local endpoints, its
 * health check node port) are contributed by each of its frontends, so that they stay until the last one is removed.
 */
export function entriesOfFrontend(frontend: AddressFrontend, nodeName: string): readonly SetEntry[] {
  const { address, port, roles, selection, servicePort } = frontend
  const { family, protocol, candidates, service, acceptsHealthChecks } = servicePort
  const entries = candidates.length > MANY_CANDIDATES ? [] : hairpins(servicePort, nodeName)
  const put = (role: SetRole, entry: string): void => {
    entries.push({ set: setName(role, family), entry })
  }
  const local = selection.policy === 'Local'
  const here = formatEntry({ address, protocol, port })
  if (roles.includes('LoadBalancerVip')) {
    putFirewall(frontend, here, put)
    if (local) put('LOAD-BALANCER-LOCAL', here)
    put('LOAD-BALANCER', here)
  }
  if (roles.includes('ExternalIP')) put(local ? 'EXTERNAL-IP-LOCAL' : 'EXTERNAL-IP', here)
  if (roles.includes('ClusterIP')) put('CLUSTER-IP', here)
  if (roles.includes('NodePort')) {
    const sets = NODE_PORT_ROLES[protocol]
    const entry = protocol === 'sctp' ? here : formatEntry({ port })
    if (local) put(sets.local, entry)
    put(sets.all, entry)
  }
  if (service.healthCheckNodePort !== 0 && acceptsHealthChecks)
    put('HEALTH-CHECK-NODE-PORT', formatEntry({ port: service.healthCheckNodePort }))
  if (frontend.bind) put('IPVS-IPS', address)
  // A copy has no room for more (see `present` in src/values/lists.ts).
  return entries.slice()
}

const NODE_PORT_ROLES: Readonly<Record<Protocol, { readonly local: SetRole; readonly all: SetRole }>> = {
  tcp: { local: 'NODE-PORT-LOCAL-TCP', all: 'NODE-PORT-TCP' },
  udp: { local: 'NODE-PORT-LOCAL-UDP', all: 'NODE-PORT-UDP' },
  sctp: { local: 'NODE-PORT-LOCAL-SCTP-HASH', all: 'NODE-PORT-SCTP-HASH' },
}

/** The allowed sources, then the entry that rejects all others. */
function putFirewall(
  { address, firewall }: AddressFrontend,
  here: string,
  put: (role: SetRole, entry: string) => void,
): void {
  if (firewall === undefined) return
  if (firewall.allowsNode) put('LOAD-BALANCER-SOURCE-IP', `${here},${address}`)
  for (const range of firewall.ranges) {
    const whole = range.prefixLength === fullLength(range.family)
    put('LOAD-BALANCER-SOURCE-CIDR', `${here},${whole ? range.address : formatCidr(range)}`)
  }
  put('LOAD-BALANCER-FW', here)
}
