/** The set and the entry of each membership of a frontend, several of which may be one entry. */
import { type Membership, type Role, ROLES, sharedHairpins } from '../service/policy.ts'
import { Contributions } from '../sync/contributions.ts'
import type { Protocol } from '../values/protocol.ts'
import { definitionOf, type SetName, setName, type SetRole } from './catalogue.ts'
import { formatEntry, fullLength } from './entry-text.ts'
import { entryKey, type SetEntry } from './types.ts'

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

/** The hairpin entries of a frontend. */
export const hairpinEntries = sharedHairpins(entryOf)

/** Which entries belong in the sets of ipset; nothing is wanted yet. */
export function wantedEntries(): Contributions<SetEntry> {
  return new Contributions({
    key: entryKey,
    equal: (a, b) => a.set === b.set && a.entry === b.entry,
    set: (entry) => entry.set,
    rank: (set) => definitionOf(set)?.rank ?? 0,
  })
}
