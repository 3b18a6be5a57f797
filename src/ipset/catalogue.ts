/**
 * The 17 sets of each family as data: names, types, comments, parameters, and the order in which
 * entries are added. Every folder may import it. Names and comments are an interface for other
 * programs and for the rules. Entries are added in the order of SET_ROLES and removed in the
 * reverse order.
 */
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'

export type SetType = 'hash:ip' | 'hash:ip,port' | 'hash:ip,port,ip' | 'hash:ip,port,net' | 'bitmap:port'

/** Name of a set in the kernel: `KUBE-CLUSTER-IP`, `KUBE-6-CLUSTER-IP`. */
export type SetName = string

/**
 * What a set holds: its IPv4 name without `KUBE-`. In the order in which entries are added, which
 * is that of the roles that the sets serve (src/service/policy.ts).
 */
export const SET_ROLES = [
  'LOOP-BACK',
  'LOAD-BALANCER-SOURCE-IP',
  'LOAD-BALANCER-SOURCE-CIDR',
  'LOAD-BALANCER-FW',
  'LOAD-BALANCER-LOCAL',
  'LOAD-BALANCER',
  'EXTERNAL-IP-LOCAL',
  'EXTERNAL-IP',
  'CLUSTER-IP',
  'NODE-PORT-LOCAL-TCP',
  'NODE-PORT-TCP',
  'NODE-PORT-LOCAL-UDP',
  'NODE-PORT-UDP',
  'NODE-PORT-LOCAL-SCTP-HASH',
  'NODE-PORT-SCTP-HASH',
  'HEALTH-CHECK-NODE-PORT',
  'IPVS-IPS',
] as const

export type SetRole = (typeof SET_ROLES)[number]

/** Buckets of a new hash set; the kernel doubles them when needed. */
export const HASH_SIZE = 1024
/** Capacity of a new hash set (maxelem). */
export const MAX_ELEMENTS = 65_536
/** Range of a bitmap:port set. */
export const LAST_PORT = 65_535

export interface SetDefinition {
  readonly name: SetName
  readonly role: SetRole
  readonly family: IpFamily
  readonly type: SetType
  /** Text of the comment in the rules that use the set, '' where no rule has one; it is not part of the set. */
  readonly comment: string
  /** Position in the order of additions, the same for both families. */
  readonly rank: number
}

const TYPES_AND_COMMENTS: Readonly<Record<SetRole, readonly [SetType, string]>> = {
  'LOOP-BACK': ['hash:ip,port,ip', 'Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose'],
  'CLUSTER-IP': ['hash:ip,port', 'Kubernetes service cluster ip + port for masquerade purpose'],
  'EXTERNAL-IP': ['hash:ip,port', 'Kubernetes service external ip + port for masquerade and filter purpose'],
  'EXTERNAL-IP-LOCAL': ['hash:ip,port', 'Kubernetes service external ip + port with externalTrafficPolicy=local'],
  'LOAD-BALANCER': ['hash:ip,port', 'Kubernetes service lb portal'],
  'LOAD-BALANCER-FW': ['hash:ip,port', 'Kubernetes service load balancer ip + port for load balancer with sourceRange'],
  'LOAD-BALANCER-LOCAL': [
    'hash:ip,port',
    'Kubernetes service load balancer ip + port with externalTrafficPolicy=local',
  ],
  'LOAD-BALANCER-SOURCE-IP': [
    'hash:ip,port,ip',
    'Kubernetes service load balancer ip + port + source IP for packet filter purpose',
  ],
  'LOAD-BALANCER-SOURCE-CIDR': [
    'hash:ip,port,net',
    'Kubernetes service load balancer ip + port + source cidr for packet filter purpose',
  ],
  'NODE-PORT-TCP': ['bitmap:port', 'Kubernetes nodeport TCP port for masquerade purpose'],
  'NODE-PORT-LOCAL-TCP': ['bitmap:port', 'Kubernetes nodeport TCP port with externalTrafficPolicy=local'],
  'NODE-PORT-UDP': ['bitmap:port', 'Kubernetes nodeport UDP port for masquerade purpose'],
  'NODE-PORT-LOCAL-UDP': ['bitmap:port', 'Kubernetes nodeport UDP port with externalTrafficPolicy=local'],
  'NODE-PORT-SCTP-HASH': [
    'hash:ip,port',
    "Kubernetes nodeport SCTP port for masquerade purpose with type 'hash ip:port'",
  ],
  'NODE-PORT-LOCAL-SCTP-HASH': [
    'hash:ip,port',
    "Kubernetes nodeport SCTP port with externalTrafficPolicy=local with type 'hash ip:port'",
  ],
  'HEALTH-CHECK-NODE-PORT': ['bitmap:port', 'Kubernetes health check node port'],
  'IPVS-IPS': ['hash:ip', ''],
}

/**
 * IPSET_MAXNAMELEN of linux/netfilter/ipset/ip_set.h without the NUL: longer names are cut, which
 * concerns two IPv6 sets.
 */
const MAX_NAME_LENGTH = 31

/** Name of the set with that role and family. */
export function setName(role: SetRole, family: IpFamily): SetName {
  return NAMES[family][role]
}

/** The name of a set before it is cut to what the kernel takes. */
export function fullName({ role, family }: Pick<SetDefinition, 'role' | 'family'>): string {
  return `${PREFIX[family]}${role}`
}

const PREFIX: Readonly<Record<IpFamily, string>> = { IPv4: 'KUBE-', IPv6: 'KUBE-6-' }

function namesOf(family: IpFamily): Readonly<Record<SetRole, SetName>> {
  const names = SET_ROLES.map((role) => [role, fullName({ role, family }).slice(0, MAX_NAME_LENGTH)])
  // The table is made from all roles, so it has each name.
  return Object.fromEntries(names) as Record<SetRole, SetName>
}

const NAMES: Readonly<Record<IpFamily, Readonly<Record<SetRole, SetName>>>> = {
  IPv4: namesOf('IPv4'),
  IPv6: namesOf('IPv6'),
}

/** All 34 sets, IPv4 before IPv6, each family in the order of SET_ROLES. */
export const CATALOGUE: readonly SetDefinition[] = IP_FAMILIES.flatMap((family) =>
  SET_ROLES.map((role, rank): SetDefinition => {
    const [type, comment] = TYPES_AND_COMMENTS[role]
    return { name: setName(role, family), role, family, type, comment, rank }
  }),
)

const BY_NAME: ReadonlyMap<SetName, SetDefinition> = new Map(CATALOGUE.map((set) => [set.name, set]))

/** The definition of one of our sets; undefined for any other name. */
export function definitionOf(name: SetName): SetDefinition | undefined {
  return BY_NAME.get(name)
}

/** The name under which the replacement of a set is filled before it is swapped in. */
export function temporaryName(set: SetDefinition): SetName {
  return `kube-ipvs-swap-${CATALOGUE.indexOf(set)}`
}
