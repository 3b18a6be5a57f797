/**
 * Finds the wanted rules of a family that are not in the kernel, and the traffic that needs them. A
 * new virtual server waits for the rules that its own traffic needs (masquerading, source ranges).
 * It does not wait for chains that only accept or refuse other traffic.
 */
import { type SetName, type SetRole, setName } from '../../../../ipset/catalogue.ts'
import type { IpFamily } from '../../../../values/protocol.ts'
import type { FilterChain, NatChain } from './chain-names.ts'
import { canonicalRule, setOf, targetOf } from '../../../../iptables/rule-text.ts'
import type { IptablesItem, TableId } from '../../../../iptables/types.ts'

export interface MissingRules {
  /** Rules that all traffic needs are missing. */
  readonly forAll: boolean
  /** Sets whose rules are missing: frontends with an entry in one of these wait. */
  readonly sets: ReadonlySet<SetName>
}

/**
 * The traffic that needs the rules of a chain that name no set: all, that of one set, or `none` if
 * no virtual server has to wait.
 */
const NEEDED_BY: {
  readonly nat: Readonly<Record<NatChain, SetRole | 'all' | 'none'>>
  readonly filter: Readonly<Record<FilterChain, SetRole | 'all' | 'none'>>
} = {
  nat: {
    'KUBE-MARK-MASQ': 'all',
    'KUBE-NODE-PORT': 'none',
    'KUBE-LOAD-BALANCER': 'LOAD-BALANCER',
    'KUBE-POSTROUTING': 'all',
    'KUBE-SERVICES': 'all',
  },
  filter: {
    'KUBE-FORWARD': 'none',
    'KUBE-NODE-PORT': 'none',
    'KUBE-SOURCE-RANGES-FIREWALL': 'LOAD-BALANCER-FW',
    'KUBE-PROXY-FIREWALL': 'LOAD-BALANCER-FW',
    'KUBE-IPVS-FILTER': 'none',
    'KUBE-IPVS-OUT-FILTER': 'LOAD-BALANCER-FW',
  },
}

/** Wanted and live items, as the table has them. */
export interface RulesMirror {
  desired(key: string): IptablesItem | undefined
  live(key: string): IptablesItem | undefined
  desiredKeys(): Iterable<string>
}

/** Compares the wanted items of a family with those in the kernel. */
export function missingRules(mirror: RulesMirror, family: IpFamily): MissingRules {
  const sets = new Set<SetName>()
  let forAll = false
  const addMissing = (needed: SetRole | 'all' | 'none'): void => {
    if (needed === 'all') forAll = true
    else if (needed !== 'none') sets.add(setName(needed, family))
  }
  for (const key of mirror.desiredKeys()) {
    const wanted = mirror.desired(key)
    const live = mirror.live(key)
    if (wanted === undefined || wanted === live) continue
    if (wanted.kind === 'jump') {
      if (live === undefined) addMissing(neededBy(wanted.table, targetOf(wanted.rule) ?? ''))
      continue
    }
    const needed = neededBy(wanted.table, wanted.chain)
    const present = new Set(live?.kind === 'chain' ? live.rules.map(canonicalRule) : [])
    for (const rule of wanted.rules) {
      if (present.has(canonicalRule(rule))) continue
      const set = wanted.table === 'nat' ? setOf(rule) : undefined
      if (set === undefined) addMissing(needed)
      else sets.add(set)
    }
  }
  return { forAll, sets }
}

function neededBy(table: TableId, chain: string): SetRole | 'all' | 'none' {
  const chains: Readonly<Record<string, SetRole | 'all' | 'none'>> = table === 'mangle' ? {} : NEEDED_BY[table]
  return chains[chain] ?? 'none'
}
