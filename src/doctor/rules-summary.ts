/** What doctor keeps of the output of iptables-save: names of chains and the rules of built-in filter chains, not those of Services. */
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
type BuiltInName = BuiltIn['chain']

/** One pass over the lines that iptables-save prints. */
export function summarizeRules(
  lines: Iterable<string>,
  backEnd: RulesFact['backEnd'],
  family: RulesFact['family'],
): RulesFact {
  const kubeChains: string[] = []
  const others = new Set<string>()
  const builtIn = new Map<string, { chain: BuiltInName; policy: string; rules: string[] }>()
  let serviceChains = 0
  let table = ''
  for (const line of lines) {
    if (line.startsWith('*')) table = line.slice(1).trim()
    else if (line.startsWith(':')) {
      const [chain = '', policy = ''] = line.slice(1).split(' ')
      if (SERVICE_CHAIN.test(chain)) serviceChains++
      else if (chain.startsWith('KUBE-') && !chain.startsWith('KUBE-ROUTER') && !chain.startsWith('KUBE-NWPLCY')) {
        if (kubeChains.length < MAX_KUBE_CHAINS) kubeChains.push(`${table} ${chain}`.slice(0, MAX_NAME_LENGTH))
      } else if (table === 'filter') {
        if (isBuiltIn(chain)) builtIn.set(chain, { chain, policy: policy.slice(0, 20), rules: [] })
        else if (others.size < MAX_OTHER_CHAINS) others.add(prefixOf(chain))
      }
    } else if (table === 'filter' && line.startsWith('-A ')) {
      const space = line.indexOf(' ', 3)
      const chain = builtIn.get(line.slice(3, space < 0 ? undefined : space))
      if (chain !== undefined && chain.rules.length < MAX_RULES && space > 0)
        chain.rules.push(line.slice(space + 1, space + 1 + MAX_RULE_LENGTH).trimEnd())
    }
  }
  return { backEnd, family, kubeChains, serviceChains, otherChains: [...others], builtIn: [...builtIn.values()] }
}

const isBuiltIn = (chain: string): chain is BuiltInName => BUILT_IN.test(chain)

/** `cali` of `cali-FORWARD`, `DOCKER` of `DOCKER-USER`; network plug-ins have many chains with one prefix. */
function prefixOf(chain: string): string {
  return (/^(KUBE-ROUTER|KUBE-NWPLCY|[^-_]+)/.exec(chain)?.[1] ?? chain).slice(0, MAX_NAME_LENGTH)
}
