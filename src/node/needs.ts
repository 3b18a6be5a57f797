/**
 * What each mode needs from the kernel, as data: each need with its module and the effect if it is
 * missing. Tests compare the matches, targets and set types with those that the rules and the
 * catalogue use.
 */
import type { ProxyMode } from '../config/types.ts'
import { CATALOGUE, type SetType } from '../ipset/catalogue.ts'
import type { IpFamily } from '../values/protocol.ts'

/** `fatal`: ipvs mode cannot work. `error`: Services do not work correctly. `warning`: a detail does not work. */
export type Severity = 'fatal' | 'error' | 'warning'

/** Something that the kernel can be asked for. */
export interface Question {
  readonly kind:
    | 'IPVS'
    | 'IPVS of IPv6'
    | 'scheduler'
    | 'ipset'
    | 'set type'
    | 'nf_tables'
    | 'nft_chain_nat'
    | 'nft_compat'
    | 'ip_tables'
    | 'match'
    | 'target'
    | 'connection tracking'
    | 'ctnetlink'
  /** Name of a scheduler, set type, match or target; else ''. */
  readonly name: string
  /** undefined if the need is the same for both IP families. */
  readonly family: IpFamily | undefined
}

/** One need, in one or both IP families. */
export interface Need extends Omit<Question, 'family'> {
  readonly families: readonly (IpFamily | undefined)[]
  /** The argument of modprobe, by IP family where it differs; '' for an option of the kernel's build. */
  readonly module: string | Readonly<Record<IpFamily, string>>
  /** What does not work without the need. */
  readonly effect: string
  readonly severity: Severity
  /** If it is missing, the rest of its group is not checked in the same IP family. */
  readonly gate?: boolean
}

/** What the needs depend on. */
export interface NeedsOptions {
  /** The mode that is to run; default ipvs. */
  readonly mode?: ProxyMode
  /** The firewall of ipvs mode; default iptables. */
  readonly firewall?: 'iptables' | 'nftables'
  readonly families: readonly IpFamily[]
  readonly scheduler: string
  /** Back end of iptables; undefined when there is none. */
  readonly iptables: 'nft' | 'legacy' | undefined
}

/** Whether rules of iptables are written. */
export function usesIptables({ mode = 'ipvs', firewall = 'iptables' }: NeedsOptions): boolean {
  return mode === 'iptables' || firewall === 'iptables'
}

/** The needs in groups, in the order in which to check them. */
export function needsOf(node: NeedsOptions): readonly (readonly Need[])[] {
  const { mode = 'ipvs', families } = node
  const groups = mode === 'ipvs' ? [ipvsNeeds(node)] : []
  if (usesIptables(node)) groups.push(...iptablesNeeds(mode, node))
  else groups.push(privateTableNeeds(families))
  // Checked last, because the questions before may have loaded conntrack.
  groups.push([CONNTRACK, CTNETLINK])
  return groups
}

function iptablesNeeds(mode: ProxyMode, node: NeedsOptions): Need[][] {
  const { families, iptables } = node
  const sets = mode === 'ipvs' ? [setNeeds(node)] : []
  const extensions = mode === 'ipvs' ? extensionsOfIpvs(families) : extensionsOfIptables(families)
  if (iptables === 'nft') return [...sets, [...nftNeeds(families), ...extensions]]
  if (iptables === 'legacy') return [...sets, [ipTables(families), ...extensions]]
  return sets
}

/** Modules of the nftables firewall beside nf_tables itself. */
const NFTABLES_MODULES = ['nft_ct', 'nft_chain_nat', 'nft_nat', 'nft_masq', 'nft_reject_ipv4', 'nft_reject_ipv6']

/** Modules that ipvs mode cannot do without, for a kernel that loads none by itself. */
export function modulesAtBoot(scheduler: string, firewall: 'iptables' | 'nftables' = 'iptables'): readonly string[] {
  const sets = Object.values(SET_TYPES).map(([module]) => module)
  const own = firewall === 'iptables' ? ['ip_set', ...sets, 'xt_set'] : ['nf_tables', ...NFTABLES_MODULES]
  return ['ip_vs', `ip_vs_${scheduler}`, 'nf_conntrack', 'dummy', ...own]
}

const EVERYWHERE: readonly undefined[] = [undefined]
const NO_RULES = 'no rules can be written: only connections that need no masquerading work'

function ipvsNeeds({ scheduler, families }: NeedsOptions): Need[] {
  const needs: Need[] = [
    {
      kind: 'IPVS',
      name: '',
      families: EVERYWHERE,
      module: 'ip_vs',
      effect: 'ipvs mode does not work on this node',
      severity: 'fatal',
      gate: true,
    },
    {
      kind: 'scheduler',
      name: scheduler,
      families: EVERYWHERE,
      module: `ip_vs_${scheduler}`,
      effect: 'no virtual server can be added; ipvs.scheduler selects this scheduler',
      severity: 'fatal',
    },
  ]
  if (families.includes('IPv6'))
    needs.push({
      kind: 'IPVS of IPv6',
      name: '',
      families: EVERYWHERE,
      module: '',
      effect: 'IPv6 addresses of Services are not served (CONFIG_IP_VS_IPV6)',
      severity: 'error',
    })
  return needs
}

const SET_TYPES: Readonly<Record<SetType, readonly [module: string, effect: string]>> = {
  'hash:ip,port': [
    'ip_set_hash_ipport',
    'traffic to cluster IPs, external IPs and load balancer VIPs is not masqueraded, source ranges have no effect',
  ],
  'hash:ip,port,ip': ['ip_set_hash_ipportip', 'a pod cannot reach itself through its Service (hairpin)'],
  'hash:ip,port,net': ['ip_set_hash_ipportnet', 'load balancer VIPs with source ranges accept no client'],
  'hash:ip': ['ip_set_hash_ip', 'connections to unused ports of Service addresses are not rejected'],
  'bitmap:port': [
    'ip_set_bitmap_port',
    'traffic to node ports is not masqueraded, health check ports are not accepted',
  ],
}

function setNeeds({ families }: NeedsOptions): Need[] {
  const types = Object.keys(SET_TYPES) as SetType[]
  return [
    {
      kind: 'ipset',
      name: '',
      families: EVERYWHERE,
      module: 'ip_set',
      effect: 'no set can be created: nothing is masqueraded, source ranges have no effect',
      severity: 'error',
      gate: true,
    },
    ...types.map((type): Need => {
      const [module, effect] = SET_TYPES[type]
      return {
        kind: 'set type',
        name: type,
        families: type === 'bitmap:port' ? EVERYWHERE : families,
        module,
        effect: `no ${namesOf(type)}: ${effect}`,
        severity: 'error',
      }
    }),
  ]
}

/** `KUBE-LOOP-BACK, KUBE-LOAD-BALANCER-SOURCE-IP` */
function namesOf(type: SetType): string {
  return CATALOGUE.filter((set) => set.type === type && set.family === 'IPv4')
    .map((set) => set.name)
    .join(', ')
}

const MASQUERADING = 'nothing is masqueraded: answers to clients outside this node get lost'

/** Of the nftables firewall, which does not open where an expression is missing. */
function privateTableNeeds(families: readonly IpFamily[]): Need[] {
  const of = { name: '', families, severity: 'error' } as const
  return [
    { ...of, kind: 'nf_tables', module: 'nf_tables', effect: NO_RULES, gate: true },
    { ...of, kind: 'nft_chain_nat', module: 'nft_chain_nat', effect: MASQUERADING },
  ]
}

function nftNeeds(families: readonly IpFamily[]): Need[] {
  const need = (kind: Need['kind'], over: Need['families'], effect: string): Need => ({
    kind,
    name: '',
    families: over,
    module: kind,
    effect,
    severity: 'error',
    gate: true,
  })
  return [
    need('nf_tables', families, `${NO_RULES} (iptables-nft; it must support the IP family, too)`),
    need('nft_compat', EVERYWHERE, NO_RULES),
    { ...need('nft_chain_nat', families, MASQUERADING), gate: false },
  ]
}

/** Only iptables-legacy loads these modules, with the first rule, so at the start they are often not loaded yet. */
function ipTables(families: readonly IpFamily[]): Need {
  return {
    kind: 'ip_tables',
    name: '',
    families,
    module: { IPv4: 'ip_tables', IPv6: 'ip6_tables' },
    effect: 'matches and targets cannot be checked; no rules can be written unless iptables-legacy loads the module',
    severity: 'warning',
    gate: true,
  }
}

type ExtensionNeed = (
  kind: 'match' | 'target',
  name: string,
  module: Need['module'],
  effect: string,
  severity?: Severity,
) => Need

const extensionNeed =
  (families: readonly IpFamily[]): ExtensionNeed =>
  (kind, name, module, effect, severity = 'error') => ({ kind, name, families, module, effect, severity })

const REJECT_MODULE = { IPv4: 'ipt_REJECT', IPv6: 'ip6t_REJECT' } as const

function extensionsOfIpvs(families: readonly IpFamily[]): Need[] {
  const need = extensionNeed(families)
  const rejecting = 'connections to unused ports of Service addresses are not rejected'
  return [
    need('match', 'comment', 'xt_comment', NO_RULES),
    need('match', 'set', 'xt_set', `${MASQUERADING}; source ranges have no effect`),
    need('match', 'mark', 'xt_mark', MASQUERADING),
    need('match', 'addrtype', 'xt_addrtype', MASQUERADING),
    need('match', 'conntrack', 'xt_conntrack', `forwarded answers are not accepted, ${rejecting}`),
    need(
      'match',
      'physdev',
      'xt_physdev',
      'its rule is omitted: traffic to external IPs also passes the rules of other programs',
      'warning',
    ),
    need(
      'match',
      'ipvs',
      'xt_ipvs',
      'its rule is omitted: this node reaches load balancer VIPs even if their source ranges exclude it',
      'warning',
    ),
    need('target', 'MARK', 'xt_mark', MASQUERADING),
    need('target', 'MASQUERADE', 'xt_MASQUERADE', MASQUERADING),
    need('target', 'REJECT', REJECT_MODULE, rejecting),
  ]
}

/**
 * Every rule is written in one restore, so that one missing extension keeps all rules of a table
 * from being written.
 */
function extensionsOfIptables(families: readonly IpFamily[]): Need[] {
  const need = extensionNeed(families)
  const nothing = 'no rules can be written, and iptables mode has nothing else: no Service is served'
  return [
    need('match', 'comment', 'xt_comment', nothing),
    need('match', 'tcp', 'xt_tcpudp', nothing),
    need('match', 'udp', 'xt_tcpudp', nothing),
    need('match', 'mark', 'xt_mark', nothing),
    need('match', 'addrtype', 'xt_addrtype', nothing),
    need('match', 'conntrack', 'xt_conntrack', nothing),
    need('match', 'statistic', 'xt_statistic', 'a Service with several endpoints is served by one of them'),
    need('match', 'recent', 'xt_recent', 'session affinity has no effect'),
    need('match', 'nfacct', 'xt_nfacct', 'packets that the rules drop or accept are not counted', 'warning'),
    need('target', 'MARK', 'xt_mark', nothing),
    need('target', 'DNAT', 'xt_nat', nothing),
    need('target', 'MASQUERADE', 'xt_MASQUERADE', nothing),
    need('target', 'REJECT', REJECT_MODULE, 'Services without endpoints cannot be rejected'),
  ]
}

const CONNTRACK: Need = {
  kind: 'connection tracking',
  name: '',
  families: EVERYWHERE,
  module: 'nf_conntrack',
  effect: MASQUERADING,
  severity: 'error',
}
const CTNETLINK: Need = {
  ...CONNTRACK,
  kind: 'ctnetlink',
  module: 'nf_conntrack_netlink',
  effect: 'UDP clients of a removed endpoint do not reach another endpoint until they pause',
  severity: 'warning',
}
