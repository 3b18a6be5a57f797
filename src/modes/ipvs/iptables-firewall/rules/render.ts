/**
 * The rules of ipvs mode of one family, from which sets have entries and a few settings. Their
 * order and their text are those that kube-proxy's recorded cases have, as iptables-save 1.8.9
 * prints them.
 */
import { definitionOf, type SetName, type SetRole, setName } from '../../../../ipset/catalogue.ts'
import type { KubeIpvsSettings } from '../../../../config/types.ts'
import { type IpFamily, type Protocol, PROTOCOL_NUMBER } from '../../../../values/protocol.ts'
import { chainKey, jumpKey, jumpRule } from '../../../../iptables/layout.ts'
import { CHAINS, type FilterChain, JUMPS, type NatChain, TABLES } from './chain-names.ts'
import { type LocalTraffic, notLocal } from '../../../../iptables/local-traffic.ts'
import { matchesOf, quoteWord, setOf } from '../../../../iptables/rule-text.ts'
import type { IptablesItem, OptionalMatch } from '../../../../iptables/types.ts'

/** One address, port and protocol that the node must not reach. */
export interface OutFilterVip {
  readonly address: string
  readonly port: number
  readonly protocol: Protocol
}

export interface RuleInput {
  readonly family: IpFamily
  /** Names of the sets that have entries. */
  readonly filled: ReadonlySet<SetName>
  /** undefined = no detector for this family. */
  readonly localTraffic: LocalTraffic | undefined
  /** Masquerade all traffic to cluster IPs, local traffic too. */
  readonly masqueradeAll: boolean
  /** Bit of the packet mark that requests masquerading, 0-31. */
  readonly masqueradeBit: number
  /** Whether this iptables knows MASQUERADE --random-fully. */
  readonly randomFully: boolean
  readonly outFilter: readonly OutFilterVip[]
  /**
   * Decides the source of the node's own traffic to a virtual IP: with `addresses` the virtual IP,
   * with `routes` the node's.
   */
  readonly virtualAddresses: KubeIpvsSettings['virtualAddresses']
  /** Matches that the kernel lacks: rules with them are left out. */
  readonly missingMatches: ReadonlySet<OptionalMatch>
  /** Sets that do not exist or have another type: rules that name one are left out. */
  readonly unusableSets: ReadonlySet<SetName>
}

export interface RenderedRules {
  /** Chains and jumps by key. */
  readonly items: ReadonlyMap<string, IptablesItem>
  /** Rules that were left out because of a missing match, `-A CHAIN …`. */
  readonly leftOut: readonly string[]
}

/** All chains and jumps of ipvs mode. */
export function renderIpvsRules(input: RuleInput): RenderedRules {
  const items = new Map<string, IptablesItem>()
  const leftOut: string[] = []
  const rulesOf = { nat: natRules(input), filter: filterRules(input) }
  for (const table of TABLES) {
    const byChain: Readonly<Record<string, readonly string[]>> = rulesOf[table]
    for (const chain of CHAINS[table]) {
      const rules: string[] = []
      for (const rule of byChain[chain] ?? []) {
        if (lacksMatch(rule, input.missingMatches)) leftOut.push(`-A ${chain} ${rule}`)
        else if (!namesOneOf(rule, input.unusableSets)) rules.push(rule)
      }
      items.set(chainKey(table, chain), { kind: 'chain', table, chain, rules })
    }
  }
  for (const place of JUMPS) {
    const { table, from } = place
    items.set(jumpKey(place), { kind: 'jump', table, chain: from, rule: jumpRule(place), copies: 1 })
  }
  return { items, leftOut }
}

function lacksMatch(rule: string, missing: ReadonlySet<string>): boolean {
  return missing.size > 0 && matchesOf(rule).some((match) => missing.has(match))
}

function namesOneOf(rule: string, sets: ReadonlySet<SetName>): boolean {
  const set = sets.size === 0 ? undefined : setOf(rule)
  return set !== undefined && sets.has(set)
}

/** Words that several rules are made of. */
function words(input: RuleInput) {
  const { family, filled } = input
  const mark = `0x${((1 << input.masqueradeBit) >>> 0).toString(16)}`
  const comment = (role: SetRole): string => definitionOf(setName(role, family))?.comment ?? ''
  const match = (role: SetRole, directions: string): string =>
    `-m set --match-set ${setName(role, family)} ${directions}`
  const named = (role: SetRole, directions: string): string =>
    `-m comment --comment ${quoteWord(comment(role))} ${match(role, directions)}`
  /** The rules, if the set has entries. */
  const when = (role: SetRole, ...rules: readonly string[]): readonly string[] =>
    filled.has(setName(role, family)) ? rules : []
  return { mark, match, named, when }
}

function natRules(input: RuleInput): Readonly<Record<NatChain, readonly string[]>> {
  const { mark, match, named, when } = words(input)
  const comment = quoteWord('kubernetes service traffic requiring SNAT')
  return {
    'KUBE-MARK-MASQ': [`-j MARK --set-xmark ${mark}/${mark}`],
    'KUBE-NODE-PORT': nodePortRules(input),
    'KUBE-LOAD-BALANCER': [
      ...when('LOAD-BALANCER-LOCAL', `${named('LOAD-BALANCER-LOCAL', 'dst,dst')} -j RETURN`),
      '-j KUBE-MARK-MASQ',
    ],
    'KUBE-POSTROUTING': [
      ...when('LOOP-BACK', `${named('LOOP-BACK', 'dst,dst,src')} -j MASQUERADE`),
      `-m mark ! --mark ${mark}/${mark} -j RETURN`,
      // Removes the mark, so that a packet that passes twice is not masqueraded twice.
      `-j MARK --set-xmark ${mark}/0x0`,
      `-m comment --comment ${comment} -j MASQUERADE${input.randomFully ? ' --random-fully' : ''}`,
    ],
    'KUBE-SERVICES': [
      `-s ${input.family === 'IPv4' ? '127.0.0.0/8' : '::1/128'} -j RETURN`,
      ...when('LOAD-BALANCER', `${named('LOAD-BALANCER', 'dst,dst')} -j KUBE-LOAD-BALANCER`),
      ...when('CLUSTER-IP', ...clusterIpRule(input)),
      ...when(
        'EXTERNAL-IP',
        `${named('EXTERNAL-IP', 'dst,dst')} -j KUBE-MARK-MASQ`,
        ...acceptExternal(named('EXTERNAL-IP', 'dst,dst')),
      ),
      ...when('EXTERNAL-IP-LOCAL', ...acceptExternal(named('EXTERNAL-IP-LOCAL', 'dst,dst'))),
      '-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT',
      ...when('CLUSTER-IP', `${match('CLUSTER-IP', 'dst,dst')} -j ACCEPT`),
      ...when('LOAD-BALANCER', `${match('LOAD-BALANCER', 'dst,dst')} -j ACCEPT`),
    ],
  }
}

/** Traffic to external IPs that did not arrive at a bridge port, or that is for this node. */
function acceptExternal(match: string): readonly string[] {
  return [
    `${match} -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT`,
    `${match} -m addrtype --dst-type LOCAL -j ACCEPT`,
  ]
}

/** Which traffic to cluster IPs is masqueraded. */
function clusterIpRule(input: RuleInput): readonly string[] {
  const { named } = words(input)
  const rule = `${named('CLUSTER-IP', 'dst,dst')} -j KUBE-MARK-MASQ`
  if (input.masqueradeAll) return [rule]
  // The node's own traffic may have picked the cluster IP as its source.
  if (input.localTraffic === undefined) return [`${named('CLUSTER-IP', 'src,dst')} -j KUBE-MARK-MASQ`]
  const outside = notLocal(input.localTraffic)
  return outside === undefined ? [] : [`${outside} ${rule}`]
}

function nodePortRules(input: RuleInput): readonly string[] {
  const { named, when } = words(input)
  const rules = (protocol: string, local: SetRole, all: SetRole, directions: string): readonly string[] => [
    ...when(local, `-p ${protocol} ${named(local, directions)} -j RETURN`),
    ...when(all, `-p ${protocol} ${named(all, directions)} -j KUBE-MARK-MASQ`),
  ]
  return [
    ...rules('tcp', 'NODE-PORT-LOCAL-TCP', 'NODE-PORT-TCP', 'dst'),
    ...rules('udp', 'NODE-PORT-LOCAL-UDP', 'NODE-PORT-UDP', 'dst'),
    ...rules('sctp', 'NODE-PORT-LOCAL-SCTP-HASH', 'NODE-PORT-SCTP-HASH', 'dst,dst'),
  ]
}

function filterRules(input: RuleInput): Readonly<Record<FilterChain, readonly string[]>> {
  const { mark, match, named, when } = words(input)
  const refusal = input.family === 'IPv4' ? 'icmp-port-unreachable' : 'icmp6-port-unreachable'
  return {
    'KUBE-FORWARD': [
      `-m comment --comment ${quoteWord('kubernetes forwarding rules')} -m mark --mark ${mark}/${mark} -j ACCEPT`,
      `-m comment --comment ${quoteWord('kubernetes forwarding conntrack rule')} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
    ],
    'KUBE-NODE-PORT': [`${named('HEALTH-CHECK-NODE-PORT', 'dst')} -j ACCEPT`],
    'KUBE-SOURCE-RANGES-FIREWALL': [
      ...when('LOAD-BALANCER-SOURCE-CIDR', `${named('LOAD-BALANCER-SOURCE-CIDR', 'dst,dst,src')} -j RETURN`),
      ...when('LOAD-BALANCER-SOURCE-IP', `${named('LOAD-BALANCER-SOURCE-IP', 'dst,dst,src')} -j RETURN`),
      '-j DROP',
    ],
    'KUBE-PROXY-FIREWALL': when(
      'LOAD-BALANCER-FW',
      `${named('LOAD-BALANCER-FW', 'dst,dst')} -j KUBE-SOURCE-RANGES-FIREWALL`,
    ),
    'KUBE-IPVS-FILTER': [
      `${match('LOAD-BALANCER', 'dst,dst')} -j RETURN`,
      `${match('CLUSTER-IP', 'dst,dst')} -j RETURN`,
      `${match('EXTERNAL-IP', 'dst,dst')} -j RETURN`,
      `${match('EXTERNAL-IP-LOCAL', 'dst,dst')} -j RETURN`,
      `${match('HEALTH-CHECK-NODE-PORT', 'dst')} -j RETURN`,
      `-m conntrack --ctstate NEW ${match('IPVS-IPS', 'dst')} -j REJECT --reject-with ${refusal}`,
    ],
    'KUBE-IPVS-OUT-FILTER': input.outFilter.map((vip) => dropFromNode(vip, input.virtualAddresses)).sort(),
  }
}

/**
 * Traffic of the node to the VIP. With an address its source is the VIP itself, else another
 * address of the node. What IPVS sends on for clients passes OUTPUT, too, with their addresses.
 */
function dropFromNode({ address, port, protocol }: OutFilterVip, kind: RuleInput['virtualAddresses']): string {
  const vip = `--vproto ${PROTOCOL_NUMBER[protocol]} --vaddr ${address} --vport ${port}`
  if (kind === 'routes') return `-m addrtype --src-type LOCAL -m ipvs ${vip} --vdir ORIGINAL -j DROP`
  return `-s ${address}/${address.includes(':') ? 128 : 32} -m ipvs ${vip} -j DROP`
}
