/**
 * The private table of ipvs mode of one family without what Services put into it: its sets, and the
 * chains that look addresses up in them. They depend on a few settings only, and are always there.
 */
import type { LocalTraffic } from '../../../iptables/local-traffic.ts'
import { NAT_PRIORITY } from '../../../nftables/nat-order.ts'
import { canonicalNetworks, networkText } from '../../../nftables/networks.ts'
import type { NftChain, NftHook, NftItem, NftRule, NftSet, NftStatement, PacketField } from '../../../nftables/types.ts'
import type { Role } from '../../../service/policy.ts'
import type { IpFamily } from '../../../values/protocol.ts'

/** A frontend: an address, a protocol and a port. */
const PLACE = ['daddr', 'l4proto', 'dport'] as const satisfies readonly PacketField[]

/** The sets in the order in which elements may be added: what permits traffic before what refuses it. */
export const SETS = {
  /** A pod that reaches itself through its Service is masqueraded: the endpoint, and the same address as the source. */
  hairpins: [...PLACE, 'saddr'],
  /** Load-balancer addresses that this node itself may not reach. */
  'closed-to-node': PLACE,
  /** Load-balancer addresses with source ranges: the chain that knows them. */
  'source-ranges': PLACE,
  /** Load-balancer and external addresses with policy Local: clients keep their address. */
  'external-ips-local': PLACE,
  /** Load-balancer and external addresses with policy Cluster: every client is masqueraded. */
  'external-ips': PLACE,
  /** Cluster IPs: clients that are no pods of this node are masqueraded. */
  'cluster-ips': PLACE,
  /** Node ports with policy Local, at each address of the node where they answer. */
  'node-ports-local': PLACE,
  /** Node ports with policy Cluster, at each address of the node where they answer. */
  'node-ports': PLACE,
  /** Node ports for the health checks of load balancers. */
  'health-check-ports': ['l4proto', 'dport'],
  /** Addresses of Services: other ports and ping are refused. */
  'virtual-ips': ['daddr'],
} as const satisfies Readonly<Record<string, readonly PacketField[]>>

export type NftSetName = keyof typeof SETS

export const SET_NAMES = Object.keys(SETS) as readonly NftSetName[]

/** The role of what is in a set. */
export const ROLE_OF_SET: Readonly<Record<NftSetName, Role>> = {
  hairpins: 'hairpin',
  'closed-to-node': 'restricted',
  'source-ranges': 'restricted',
  'external-ips-local': 'external-ip-local',
  'external-ips': 'external-ip',
  'cluster-ips': 'cluster-ip',
  'node-ports-local': 'node-port-local',
  'node-ports': 'node-port',
  'health-check-ports': 'health-check',
  'virtual-ips': 'virtual-ip',
}

/** Chains that Services share. The names of those of one Service begin with RANGES. */
export const CHAINS = {
  keep: 'keep-destination',
  masquerade: 'mark-for-masquerade',
  clusterIp: 'cluster-ip',
  services: 'services',
  refuse: 'refuse-unknown-ports',
  input: 'filter-input',
} as const

/** Begins the name of the chain with the source ranges of a Service. */
export const RANGES = 'ranges-'

/**
 * Before the chains of others at the usual priorities: our marks must be there when another program
 * translates, and our refusal when another one drops. Of type nat see NAT_PRIORITY.
 */
const HOOKS = {
  'nat-prerouting': { type: 'nat', hook: 'prerouting', priority: NAT_PRIORITY },
  'nat-output': { type: 'nat', hook: 'output', priority: NAT_PRIORITY },
  'nat-postrouting': { type: 'nat', hook: 'postrouting', priority: 95 },
  'filter-input': { type: 'filter', hook: 'input', priority: -5 },
  'filter-forward': { type: 'filter', hook: 'forward', priority: -5 },
  'filter-output': { type: 'filter', hook: 'output', priority: -110 },
} as const satisfies Readonly<Record<string, NftHook>>

export interface LayoutInput {
  readonly family: IpFamily
  /** Whether the table belongs to this process, so that no other one can change it. */
  readonly isOwned: boolean
  /** undefined = no detector for this family. */
  readonly localTraffic: LocalTraffic | undefined
  /** Masquerade all traffic to cluster IPs, local traffic too. */
  readonly masqueradeAll: boolean
  /** Bit of the packet mark that requests masquerading, 0-31. */
  readonly masqueradeBit: number
  /** False while another mode serves what has no virtual server yet: its chains then get their turn. */
  readonly takesAll: boolean
  /** False until the sets are filled: what is not in a set yet would be refused. */
  readonly refuses: boolean
}

/** Table, sets and chains, each after what it names. */
export function layoutOf(input: LayoutInput): readonly NftItem[] {
  const { family, isOwned } = input
  const sets = SET_NAMES.map(
    (name): NftSet => ({ kind: 'set', family, name, fields: SETS[name], isMap: name === 'source-ranges' }),
  )
  return [{ kind: 'table', family, isOwned }, ...sets, ...natChains(input), ...filterChains(input)]
}

function natChains(input: LayoutInput): readonly NftChain[] {
  const { family, masqueradeBit, takesAll } = input
  const mask = (1 << masqueradeBit) >>> 0
  const chain = chainsOf(family)
  return [
    // A hostPort of the same number, for one, would take packets to a virtual IP, because it is an address of the node.
    chain(CHAINS.keep, takesAll ? [rule({ kind: 'keep-destination' })] : []),
    chain(CHAINS.masquerade, [rule({ kind: 'set-mark', mask, to: 'set' }), rule(goTo(CHAINS.keep))]),
    chain(CHAINS.clusterIp, clusterIpRules(input)),
    chain(CHAINS.services, [
      rule(source(family === 'IPv4' ? '127.0.0.0/8' : '::1'), verdict('return')),
      rule(isIn('cluster-ips'), goTo(CHAINS.clusterIp)),
      rule(isIn('external-ips'), goTo(CHAINS.masquerade)),
      rule(isIn('external-ips-local'), goTo(CHAINS.keep)),
      // Nothing follows from it, but it says that the virtual server is ours.
      rule(isIn('node-ports-local'), verdict('return')),
      rule(isIn('node-ports'), { kind: 'set-mark', mask, to: 'set' }),
    ]),
    chain('nat-prerouting', [rule(jump(CHAINS.services))], HOOKS['nat-prerouting']),
    chain('nat-output', [rule(jump(CHAINS.services))], HOOKS['nat-output']),
    chain(
      'nat-postrouting',
      [
        rule(isIn('hairpins'), { kind: 'masquerade', isFullyRandom: false }),
        rule({ kind: 'mark', mask, isNot: true }, verdict('return')),
        // A packet that passes twice is not masqueraded twice.
        rule({ kind: 'set-mark', mask, to: 'clear' }),
        rule({ kind: 'masquerade', isFullyRandom: true }),
      ],
      HOOKS['nat-postrouting'],
    ),
  ]
}

/** Which traffic to cluster IPs is masqueraded. */
function clusterIpRules({ masqueradeAll, localTraffic }: LayoutInput): readonly NftRule[] {
  const all = rule(goTo(CHAINS.masquerade))
  if (masqueradeAll) return [all]
  // The node's own traffic may have picked the virtual IP as its source.
  if (localTraffic === undefined)
    return [
      rule({ kind: 'lookup', fields: ['saddr'], set: 'virtual-ips' }, goTo(CHAINS.masquerade)),
      rule(goTo(CHAINS.keep)),
    ]
  const local = isLocal(localTraffic)
  return local === undefined ? [rule(goTo(CHAINS.keep))] : [rule(local, goTo(CHAINS.keep)), all]
}

/**
 * undefined: all traffic is local. A rule that matches local traffic rather than the rest also
 * works on kernels where no match on an interface applies to the node's own traffic.
 */
function isLocal(local: LocalTraffic): NftStatement | undefined {
  switch (local.kind) {
    case 'cidr':
      return local.cidr.prefixLength === 0 ? undefined : source(networkText(local.cidr))
    case 'interface':
      return { kind: 'interface', name: local.name }
    case 'interface-prefix':
      return local.prefix === '' ? undefined : { kind: 'interface', name: `${local.prefix}*` }
  }
}

function filterChains({ family, refuses }: LayoutInput): readonly NftChain[] {
  const chain = chainsOf(family)
  const ranges = rule({ kind: 'verdict-map', fields: PLACE, map: 'source-ranges' })
  return [
    chain(CHAINS.refuse, [
      rule(isIn('cluster-ips'), verdict('return')),
      rule(isIn('external-ips'), verdict('return')),
      rule(isIn('external-ips-local'), verdict('return')),
      // Some load balancers send their checks to the virtual IP.
      rule(isIn('health-check-ports'), verdict('return')),
      rule({ kind: 'reject' }),
    ]),
    chain(
      CHAINS.input,
      refuses ? [ranges, rule({ kind: 'new-connection' }, isIn('virtual-ips'), goTo(CHAINS.refuse))] : [ranges],
      HOOKS[CHAINS.input],
    ),
    chain('filter-forward', [ranges], HOOKS['filter-forward']),
    // What ip_vs sends on for clients has the address of an endpoint here.
    chain('filter-output', [rule(isIn('closed-to-node'), verdict('drop'))], HOOKS['filter-output']),
  ]
}

function chainsOf(family: IpFamily) {
  return (name: string, rules: readonly NftRule[], hook?: NftHook): NftChain => ({
    kind: 'chain',
    family,
    name,
    ...(hook === undefined ? {} : { hook }),
    rules,
  })
}

const rule = (...statements: readonly NftStatement[]): NftRule => ({ statements })
const source = (cidr: string): NftStatement => ({ kind: 'network', field: 'saddr', cidr })
const isIn = (set: NftSetName): NftStatement => ({ kind: 'lookup', fields: SETS[set], set })
const verdict = (kind: 'return' | 'drop'): NftStatement => ({ kind: 'verdict', action: { kind } })
const goTo = (chain: string): NftStatement => ({ kind: 'verdict', action: { kind: 'goto', chain } })
const jump = (chain: string): NftStatement => ({ kind: 'verdict', action: { kind: 'jump', chain } })

/** The chain with the source ranges of a Service: what is in none of them is dropped. */
export function rangesChain(family: IpFamily, name: string, sources: readonly string[]): NftChain {
  const cidrs = canonicalNetworks(sources, family)
  const permitted = rule({ kind: 'networks', field: 'saddr', cidrs }, verdict('return'))
  return chainsOf(family)(name, [permitted, rule(verdict('drop'))])
}
