/**
 * What ipvs mode needs of the kernel, as data: every piece with the module that brings it and what is wrong without it.
 * What could break: matches, targets and types of sets are those that the rules and the catalogue use; a test compares.
 */
import { CATALOGUE, type SetType } from '../ipset/catalogue.ts'
import type { IpFamily } from '../values/protocol.ts'

/** `fatal`: ipvs mode cannot work. `error`: Services do not work as they should. `warning`: a detail does not. */
export type Severity = 'fatal' | 'error' | 'warning'

/** Something the kernel can be asked for. */
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
  /** Of a scheduler, set type, match or target; else ''. */
  readonly name: string
  /** undefined where there is no difference. */
  readonly family: IpFamily | undefined
}

/** One piece, perhaps of both families. */
export interface Need extends Omit<Question, 'family'> {
  readonly families: readonly (IpFamily | undefined)[]
  /** What modprobe takes, where it matters by family; '' when it is no module but an option of the kernel's build. */
  readonly module: string | Readonly<Record<IpFamily, string>>
  /** What does not work without it. */
  readonly effect: string
  readonly severity: Severity
  /** Without it there is no use in asking for the rest of its group, in the same family. */
  readonly gate?: boolean
}

export interface NodeNeeds {
  readonly families: readonly IpFamily[]
  readonly scheduler: string
  /** Back end of iptables; undefined when there is none. */
  readonly iptables: 'nft' | 'legacy' | undefined
}

/** Groups of needs, to be asked for in this order. */
export function needsOf(node: NodeNeeds): readonly (readonly Need[])[] {
  const groups = [ipvsNeeds(node), setNeeds(node)]
  const { families } = node
  if (node.iptables === 'nft') groups.push([...nftNeeds(families), ...extensionNeeds(families)])
  if (node.iptables === 'legacy') groups.push([ipTables(families), ...extensionNeeds(families)])
  // Last, because asking for the rest may have loaded it.
  groups.push([CONNTRACK, CTNETLINK])
  return groups
}

const EVERYWHERE: readonly undefined[] = [undefined]
const NO_RULES = 'no rule can be written: Services answer only where nothing must be masqueraded'

function ipvsNeeds({ scheduler, families }: NodeNeeds): Need[] {
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
      effect: 'no virtual server can be made; ipvs.scheduler names it',
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
    'traffic to cluster IPs, external IPs and load balancer VIPs is not masqueraded, source ranges guard nothing',
  ],
  'hash:ip,port,ip': ['ip_set_hash_ipportip', 'a pod cannot reach itself through its Service (hairpin)'],
  'hash:ip,port,net': ['ip_set_hash_ipportnet', 'nobody gets through to load balancer VIPs with source ranges'],
  'hash:ip': ['ip_set_hash_ip', 'wrong ports of the addresses of Services are not refused'],
  'bitmap:port': [
    'ip_set_bitmap_port',
    'traffic to node ports is not masqueraded, health check ports are not let through',
  ],
}

function setNeeds({ families }: NodeNeeds): Need[] {
  // The catalogue has every type at least once.
  const types = Object.keys(SET_TYPES) as SetType[]
  return [
    {
      kind: 'ipset',
      name: '',
      families: EVERYWHERE,
      module: 'ip_set',
      effect: 'no set can be made: nothing is masqueraded, source ranges guard nothing',
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

const MASQUERADING = 'nothing is masqueraded: answers to clients of other nodes get lost'

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
    need('nf_tables', families, `${NO_RULES} (iptables-nft; it must support the family, too)`),
    need('nft_compat', EVERYWHERE, NO_RULES),
    { ...need('nft_chain_nat', families, MASQUERADING), gate: false },
  ]
}

/** Nobody but iptables-legacy loads these, when it first writes a rule: at a start they may well not be there yet. */
function ipTables(families: readonly IpFamily[]): Need {
  return {
    kind: 'ip_tables',
    name: '',
    families,
    module: { IPv4: 'ip_tables', IPv6: 'ip6_tables' },
    effect: 'matches and targets cannot be asked for; no rule can be written unless iptables-legacy loads it',
    severity: 'warning',
    gate: true,
  }
}

function extensionNeeds(families: readonly IpFamily[]): Need[] {
  const need = (
    kind: 'match' | 'target',
    name: string,
    module: Need['module'],
    effect: string,
    severity: Severity = 'error',
  ): Need => ({ kind, name, families, module, effect, severity })
  const refusing = 'wrong ports of the addresses of Services are not refused'
  return [
    need('match', 'comment', 'xt_comment', NO_RULES),
    need('match', 'set', 'xt_set', `${MASQUERADING}; source ranges guard nothing`),
    need('match', 'mark', 'xt_mark', MASQUERADING),
    need('match', 'addrtype', 'xt_addrtype', MASQUERADING),
    need('match', 'conntrack', 'xt_conntrack', `forwarded answers are not let through, ${refusing}`),
    need(
      'match',
      'physdev',
      'xt_physdev',
      'its rule is left out: traffic to external IPs goes on through the rules of others',
      'warning',
    ),
    need(
      'match',
      'ipvs',
      'xt_ipvs',
      'its rule is left out: this node itself reaches load balancer VIPs whose source ranges leave it out',
      'warning',
    ),
    need('target', 'MARK', 'xt_mark', MASQUERADING),
    need('target', 'MASQUERADE', 'xt_MASQUERADE', MASQUERADING),
    need('target', 'REJECT', { IPv4: 'ipt_REJECT', IPv6: 'ip6t_REJECT' }, refusing),
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
  effect: 'UDP clients of an endpoint that goes are not moved to another one until they pause',
  severity: 'warning',
}
