/**
 * Compares the chains and rules that a Service needs in iptables mode with those that are there.
 */
import { chainKey } from '../../iptables/layout.ts'
import { ruleOptions } from '../../iptables/rule-parts.ts'
import { canonicalRule } from '../../iptables/rule-text.ts'
import type { Chain } from '../../iptables/types.ts'
import { chainHash, serviceChain } from '../../modes/iptables/chains/chain-names.ts'
import { SHARED_CHAINS } from '../../modes/iptables/chains/service-port-render.ts'
import type { Live } from '../../modes/look/live-tables.ts'
import { RULES_UNREAD } from '../../modes/look/service-tables.ts'
import type { ServiceTable, Wanted } from '../../explain/wanted.ts'
import { type FrontendKey, type FrontendRole, parseFrontendKey, parseNodePortKey } from '../../service/frontends.ts'
import type { IpFamily, Protocol } from '../../values/protocol.ts'
import type { ExplainedObject } from './object-types.ts'

/** A Service port, as far as its chains depend on it. */
export interface PortOfChains {
  readonly name: string
  readonly protocol: Protocol
  readonly family: IpFamily
}

/**
 * Whether a rule concerns one of these frontends, as far as its destination tells. Chains belong to
 * the port as a whole.
 */
export function isRuleOf(
  { kind, name, place }: Pick<ExplainedObject, 'kind' | 'name' | 'place'>,
  frontends: readonly { readonly key: FrontendKey; readonly roles: readonly FrontendRole[] }[],
): boolean {
  if (kind !== 'rule') return true
  const destination = ruleOptions(name).find((option) => option.name === '-d')?.values[0]
  const address = destination?.split('/')[0]
  if (address === undefined || address === '127.0.0.0')
    // The other rules without an address are for health checks.
    return place === 'filter KUBE-NODEPORTS' || frontends.some(({ roles }) => roles.includes('NodePort'))
  return frontends.some(({ key }) => parseNodePortKey(key) === undefined && parseFrontendKey(key).address === address)
}

/** A rule in a chain that all Services share. */
export function compareRule(
  table: Extract<ServiceTable, `chains-${string}`>,
  item: Chain,
  { tables }: Live,
): ExplainedObject {
  const chains = tables[table]?.items
  const [name = ''] = item.rules
  const base = { kind: 'rule', frontend: null, name, place: chainKey(item.table, item.chain), commands: [] } as const
  if (chains === undefined) return { ...base, state: 'unknown', means: RULES_UNREAD }
  const wanted = canonicalRule(name)
  if (chains.get(base.place)?.rules.some((rule) => canonicalRule(rule) === wanted) === true)
    return { ...base, state: 'present', means: '' }
  if (COUNTER.test(name) && !hasCounters(chains)) return { ...base, state: 'unknown', means: NO_COUNTERS }
  return { ...base, state: 'missing', means: ruleAbsenceMeans(item) }
}

/** Rules with counters are left out on a kernel without them, which only a daemon finds out. */
const COUNTER = / -m nfacct /
const NO_COUNTERS = 'it only counts packets, and this kernel seems to have no counters (nfacct)'

function hasCounters(chains: ReadonlyMap<string, Chain>): boolean {
  for (const { rules } of chains.values()) if (rules.some((rule) => COUNTER.test(` ${rule}`))) return true
  return false
}

function ruleAbsenceMeans({ table, chain }: Chain): string {
  if (table === 'nat') return 'connections to this address and port are not sent to the Service'
  if (chain === 'KUBE-NODEPORTS') return 'a firewall of this node may drop health checks of load balancers'
  if (chain === 'KUBE-PROXY-FIREWALL') return 'source ranges are not enforced'
  return 'connections that should be refused or dropped are not'
}

const SERVICE_CHAINS = ['SVC', 'SVL', 'EXT', 'FW'] as const
/** Chains of a Service port, and rules with its name, that nothing wants; only where iptables mode wants something. */
export function extraRules(
  { name, protocol, family }: PortOfChains,
  wanted: readonly Wanted[],
  { tables }: Live,
): { readonly chains: readonly Wanted[]; readonly rules: readonly ExplainedObject[] } {
  const table = `chains-${family}` as const
  const chains = tables[table]?.items
  const own = wanted.filter((one) => one.table === table && one.neededBy === name)
  if (chains === undefined || own.length === 0) return { chains: [], rules: [] }
  const extra = SERVICE_CHAINS.flatMap((kind): Wanted[] => {
    const key = chainKey('nat', serviceChain(kind, chainHash(name + protocol)))
    const item = chains.get(key)
    return item === undefined || own.some((one) => one.key === key) ? [] : [{ table, key, neededBy: name, item }]
  })
  return { chains: extra, rules: extraSharedRules(name, own, chains) }
}

function extraSharedRules(
  name: string,
  own: readonly Wanted[],
  chains: ReadonlyMap<string, Chain>,
): readonly ExplainedObject[] {
  return SHARED_CHAINS.flatMap((place) => {
    const known = new Set(
      own.flatMap(({ key, item }) => (key === place && 'rules' in item ? item.rules.map(canonicalRule) : [])),
    )
    const rules = chains.get(place)?.rules ?? []
    return rules
      .filter((rule) => isAbout(rule, name) && !known.has(canonicalRule(rule)))
      .map(
        (rule): ExplainedObject => ({
          kind: 'rule',
          frontend: null,
          name: rule,
          place,
          state: 'extra',
          means: 'it may send connections elsewhere, or refuse them, before the rules of the daemon see them',
          commands: [],
        }),
      )
  })
}

/** Whether the comment of a rule names this Service port. */
function isAbout(rule: string, servicePort: string): boolean {
  const comment = ruleOptions(rule).find(({ name }) => name === '--comment')?.values[0] ?? ''
  return comment === servicePort || comment.startsWith(`${servicePort} `)
}
