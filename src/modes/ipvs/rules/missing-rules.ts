/**
 * Which rules of a family are wanted and not there, by whom they are needed: a new virtual server waits for its own.
 * What could break: what is missing must be about the traffic of a virtual server (masquerading, its firewall). Chains that
 * only accept or refuse more than they should hold nobody up.
 */
import { type SetName, type SetRole, setName } from '../../../ipset/catalogue.ts'
import type { IpFamily } from '../../../values/protocol.ts'
import type { FilterChain, NatChain } from './chain-names.ts'
import { canonicalRule, setOf, targetOf } from '../../../iptables/rule-text.ts'
import type { IptablesItem, TableId } from '../../../iptables/types.ts'

export interface MissingRules {
  /** Something that all traffic needs. */
  readonly forAll: boolean
  /** Sets whose rules are not in: whoever has an entry in one waits. */
  readonly sets: ReadonlySet<SetName>
}

/** Who needs the rules of a chain that name no set: everybody, those in a set, or nobody who would have to wait. */
const NEEDED_BY: {
  readonly nat: Readonly<Record<NatChain, SetRole | 'all' | 'nobody'>>
  readonly filter: Readonly<Record<FilterChain, SetRole | 'all' | 'nobody'>>
} = {
  nat: {
    'KUBE-MARK-MASQ': 'all',
    'KUBE-NODE-PORT': 'nobody',
    'KUBE-LOAD-BALANCER': 'LOAD-BALANCER',
    'KUBE-POSTROUTING': 'all',
    'KUBE-SERVICES': 'all',
  },
  filter: {
    'KUBE-FORWARD': 'nobody',
    'KUBE-NODE-PORT': 'nobody',
    'KUBE-SOURCE-RANGES-FIREWALL': 'LOAD-BALANCER-FW',
    'KUBE-PROXY-FIREWALL': 'LOAD-BALANCER-FW',
    'KUBE-IPVS-FILTER': 'nobody',
    'KUBE-IPVS-OUT-FILTER': 'LOAD-BALANCER-FW',
  },
}

/** What is wanted and what is there, as the table knows them. */
export interface RulesMirror {
  desired(key: string): IptablesItem | undefined
  live(key: string): IptablesItem | undefined
  desiredKeys(): Iterable<string>
}

export function missingRules(mirror: RulesMirror, family: IpFamily): MissingRules {
  const sets = new Set<SetName>()
  let forAll = false
  const miss = (needed: SetRole | 'all' | 'nobody'): void => {
    if (needed === 'all') forAll = true
    else if (needed !== 'nobody') sets.add(setName(needed, family))
  }
  for (const key of mirror.desiredKeys()) {
    const wanted = mirror.desired(key)
    const live = mirror.live(key)
    if (wanted === undefined || wanted === live) continue
    if (wanted.kind === 'jump') {
      if (live === undefined) miss(neededBy(wanted.table, targetOf(wanted.rule) ?? ''))
      continue
    }
    const needed = neededBy(wanted.table, wanted.chain)
    const there = new Set(live?.kind === 'chain' ? live.rules.map(canonicalRule) : [])
    for (const rule of wanted.rules) {
      if (there.has(canonicalRule(rule))) continue
      const named = wanted.table === 'nat' ? setOf(rule) : undefined
      if (named === undefined) miss(needed)
      else sets.add(named)
    }
  }
  return { forAll, sets }
}

function neededBy(table: TableId, chain: string): SetRole | 'all' | 'nobody' {
  const chains: Readonly<Record<string, SetRole | 'all' | 'nobody'>> = table === 'mangle' ? {} : NEEDED_BY[table]
  return chains[chain] ?? 'nobody'
}
