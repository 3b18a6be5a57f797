/**
 * What doctor keeps of the rules of iptables: names of chains and the rules of built-in filter
 * chains, not those of Services.
 */
import type { ChainLayout } from '../iptables/layout.ts'
import type { WholeTable, WholeTables } from '../iptables/whole-tables.ts'
import type { RulesFact } from './rule-facts.ts'

/** A chain of one Service or endpoint, by its hash. */
const SERVICE_CHAIN = /^KUBE-(SVC|SVL|SEP|EXT|FW|XLB)-[A-Z2-7]{16}$/
const BUILT_IN = /^(INPUT|FORWARD|OUTPUT)$/

const MAX_KUBE_CHAINS = 200
const MAX_OTHER_CHAINS = 50
const MAX_RULES = 100
const MAX_RULE_LENGTH = 300
const MAX_NAME_LENGTH = 60

type BuiltIn = RulesFact['builtIn'][number]

/** @param proxies the chains of proxies of Kubernetes */
export function summarizeRules(
  tables: WholeTables,
  backEnd: RulesFact['backEnd'],
  family: RulesFact['family'],
  proxies: Pick<ChainLayout, 'owns'>,
): RulesFact {
  const kubeChains: string[] = []
  const others = new Set<string>()
  const builtIn: BuiltIn[] = []
  let serviceChains = 0
  for (const [table, chains] of tables)
    for (const [chain, { policy = '-', rules }] of chains) {
      if (SERVICE_CHAIN.test(chain)) serviceChains++
      else if (chain.startsWith('KUBE-') && !chain.startsWith('KUBE-ROUTER') && !chain.startsWith('KUBE-NWPLCY')) {
        if (kubeChains.length < MAX_KUBE_CHAINS) kubeChains.push(`${table} ${chain}`.slice(0, MAX_NAME_LENGTH))
      } else if (table === 'filter' && isBuiltIn(chain)) {
        const kept = rules.slice(0, MAX_RULES).map((rule) => rule.slice(0, MAX_RULE_LENGTH).trimEnd())
        builtIn.push({ chain, policy: policy.slice(0, 20), rules: kept })
      } else if (table === 'filter' && others.size < MAX_OTHER_CHAINS) others.add(prefixOf(chain))
    }
  const acceptsAnswers = acceptsForwardedAnswers(tables.get('filter') ?? new Map(), proxies)
  return { backEnd, family, kubeChains, serviceChains, otherChains: [...others], builtIn, acceptsAnswers }
}

/** Whether a rule that forwarded packets may reach does. Rules of proxies do not count: the daemon removes them. */
function acceptsForwardedAnswers(filter: WholeTable, proxies: Pick<ChainLayout, 'owns'>): boolean {
  const reached = new Set(['FORWARD'])
  for (const name of reached) {
    const rules = proxies.owns('filter', name) ? [] : (filter.get(name)?.rules ?? [])
    if (rules.some(acceptsByState)) return true
    for (const rule of rules) reached.add(TARGET.exec(rule.replace(COMMENT, ''))?.[1] ?? '')
  }
  return false
}

const TARGET = /(?:^| )-[jg] (\S+)/

const COMMENT = / ?-m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+)/
const BY_STATE = /^-m (?:conntrack --ctstate|state --state) (?:[A-Z]+,)*ESTABLISHED(?:,[A-Z]+)* -j ACCEPT$/

/** Whether the rule accepts packets of established connections, whatever else they are. */
function acceptsByState(rule: string): boolean {
  return rule.endsWith(' -j ACCEPT') && BY_STATE.test(rule.replace(COMMENT, '').trim())
}

const isBuiltIn = (chain: string): chain is BuiltIn['chain'] => BUILT_IN.test(chain)

/** `cali` of `cali-FORWARD`, `DOCKER` of `DOCKER-USER`; network plug-ins have many chains with one prefix. */
function prefixOf(chain: string): string {
  return (/^(KUBE-ROUTER|KUBE-NWPLCY|[^-_]+)/.exec(chain)?.[1] ?? chain).slice(0, MAX_NAME_LENGTH)
}
