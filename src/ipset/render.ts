/** The set and the entry of each membership of a frontend. Several memberships may be one entry. */
import type { AddressFrontend } from '../service/frontends.ts'
import { hairpinsOf, type Membership, type Role, ROLES } from '../service/policy.ts'
import type { Protocol } from '../values/protocol.ts'
import { definitionOf, type SetName, type SetRole, setName } from './catalogue.ts'
import { formatEntry, fullLength } from './entry-text.ts'
import type { SetEntry } from './types.ts'

const SETS: Readonly<Record<Exclude<Role, 'node-port' | 'node-port-local'>, SetRole>> = {
  hairpin: 'LOOP-BACK',
  'source-address': 'LOAD-BALANCER-SOURCE-IP',
  'source-range': 'LOAD-BALANCER-SOURCE-CIDR',
  restricted: 'LOAD-BALANCER-FW',
  'load-balancer-local': 'LOAD-BALANCER-LOCAL',
  'load-balancer': 'LOAD-BALANCER',
  'external-ip-local': 'EXTERNAL-IP-LOCAL',
  'external-ip': 'EXTERNAL-IP',
  'cluster-ip': 'CLUSTER-IP',
  'health-check': 'HEALTH-CHECK-NODE-PORT',
  'virtual-ip': 'IPVS-IPS',
}

const NODE_PORT_SETS: Readonly<Record<'node-port' | 'node-port-local', Readonly<Record<Protocol, SetRole>>>> = {
  'node-port': { tcp: 'NODE-PORT-TCP', udp: 'NODE-PORT-UDP', sctp: 'NODE-PORT-SCTP-HASH' },
  'node-port-local': {
    tcp: 'NODE-PORT-LOCAL-TCP',
    udp: 'NODE-PORT-LOCAL-UDP',
    sctp: 'NODE-PORT-LOCAL-SCTP-HASH',
  },
}

const ROLES_OF_SETS: ReadonlyMap<SetRole, Role> = new Map(
  ROLES.flatMap((role) =>
    (['tcp', 'udp', 'sctp'] as const).map((protocol) => [setOfRole(role, protocol), role] as const),
  ),
)

function setOfRole(role: Role, protocol: Protocol = 'tcp'): SetRole {
  return role === 'node-port' || role === 'node-port-local' ? NODE_PORT_SETS[role][protocol] : SETS[role]
}

/** The role of what is in one of our sets. */
export function roleOf(name: SetName): Role | undefined {
  const set = definitionOf(name)?.role
  return set && ROLES_OF_SETS.get(set)
}

export function entryOf(membership: Membership): SetEntry {
  const { role, family, port, protocol } = membership
  const set = setName(setOfRole(role, protocol), family)
  const isOfPorts = definitionOf(set)?.type === 'bitmap:port'
  return { set, entry: isOfPorts ? String(port) : formatEntry(asListed(membership)) }
}

/** A network of one address is listed without its length. */
function asListed(membership: Membership): Membership {
  const { role, family, second } = membership
  if (role !== 'source-range' || second === undefined) return membership
  const whole = `/${fullLength(family)}`
  return second.endsWith(whole) ? { ...membership, second: second.slice(0, -whole.length) } : membership
}

const HAIRPINS = new WeakMap<AddressFrontend['servicePort']['candidates'], Map<string, readonly SetEntry[]>>()
const NONE: readonly SetEntry[] = []
/** Of so few candidates it is not kept that none has an entry: most Services have few, and none on this node. */
const FEW_CANDIDATES = 64

/** The hairpin entries of a frontend: one list for all frontends with the same candidates. */
export function hairpinEntries(frontend: AddressFrontend, nodeName: string): readonly SetEntry[] {
  const { candidates, protocol } = frontend.servicePort
  const key = `${protocol} ${nodeName}`
  const known = HAIRPINS.get(candidates)
  const entries = known?.get(key) ?? hairpinsOf(frontend, nodeName).map(entryOf)
  if (entries.length === 0 && candidates.length <= FEW_CANDIDATES) return NONE
  if (known === undefined) HAIRPINS.set(candidates, new Map([[key, entries]]))
  else known.set(key, entries)
  return entries
}
