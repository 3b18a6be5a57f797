/**
 * Compares the chains and rules that a Service needs in iptables mode with those that are there.
 */
import { diffIptables, formatIptablesOperation } from '../../iptables/diff.ts'
import { canonicalRule } from '../../iptables/rule-text.ts'
import { ruleOptions } from '../../iptables/rule-parts.ts'
import type { SavedTables } from '../../iptables/save-text.ts'
import { chainHash, serviceChain } from '../../modes/iptables/chains/chain-names.ts'
import type { LiveObjects } from '../../modes/look/live-objects.ts'
import type { WantedObject } from '../../explain/wanted-objects.ts'
import { type FrontendKey, type FrontendRole, parseFrontendKey, parseNodePortKey } from '../../service/frontends.ts'
import type { IpFamily, Protocol } from '../../values/protocol.ts'
import type { ExplainedObject } from './object-types.ts'

/** A Service port, as far as its chains depend on it. */
export interface PortOfChains {
  readonly name: string
  readonly protocol: Protocol
  readonly family: IpFamily
}

export type WantedRule = Extract<WantedObject, { kind: 'chain' | 'rule' }>

/** Whether a rule concerns one of these frontends, as far as its destination tells. Chains belong to the port as a whole. */
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

export function compareRule(object: WantedRule, live: LiveObjects): ExplainedObject {
  const { family, table, chain } = object
  const saved = live.saved[family]
  const rules = saved?.get(table)?.get(chain)
  const isChain = object.kind === 'chain'
  const base = {
    kind: object.kind,
    frontend: null,
    name: isChain ? chain : object.rule,
    place: isChain ? table : `${table} ${chain}`,
    ...(isChain ? { rules: object.rules } : {}),
  }
  if (saved === undefined)
    return { ...base, state: 'unknown', means: 'the rules of this family could not be read', commands: [] }
  if (object.kind === 'chain') {
    const item = { kind: 'chain', table, chain } as const
    const ops = diffIptables({ ...item, rules: object.rules }, rules === undefined ? undefined : { ...item, rules })
    const commands = ops.map((op) => formatIptablesOperation(op, family, ''))
    if (ops.length === 0) return { ...base, state: 'present', means: '', commands }
    return rules === undefined
      ? { ...base, state: 'missing', means: 'connections that rules send to this chain are not served', commands }
      : { ...base, state: 'differs', means: 'connections are treated by other rules than the daemon wants', commands }
  }
  const wanted = canonicalRule(object.rule)
  if (rules?.some((rule) => canonicalRule(rule) === wanted) === true)
    return { ...base, state: 'present', means: '', commands: [] }
  if (COUNTER.test(object.rule) && !hasCounters(saved))
    return { ...base, state: 'unknown', means: NO_COUNTERS, commands: [] }
  return { ...base, state: 'missing', means: ruleAbsenceMeans(object), commands: [] }
}

/** Rules with counters are left out on a kernel without them, which only a daemon finds out. */
const COUNTER = / -m nfacct /
const NO_COUNTERS = 'it only counts packets, and this kernel seems to have no counters (nfacct)'

function hasCounters(saved: SavedTables): boolean {
  for (const table of saved.values())
    for (const rules of table.values()) if (rules.some((rule) => COUNTER.test(` ${rule}`))) return true
  return false
}

function ruleAbsenceMeans({ table, chain }: WantedRule): string {
  if (table === 'nat') return 'connections to this address and port are not sent to the Service'
  if (chain === 'KUBE-NODEPORTS') return 'a firewall of this node may drop health checks of load balancers'
  if (chain === 'KUBE-PROXY-FIREWALL') return 'source ranges are not enforced'
  return 'connections that should be refused or dropped are not'
}

const SERVICE_CHAINS = ['SVC', 'SVL', 'EXT', 'FW'] as const
const SHARED = [
  ['nat', 'KUBE-SERVICES'],
  ['nat', 'KUBE-NODEPORTS'],
  ['filter', 'KUBE-SERVICES'],
  ['filter', 'KUBE-EXTERNAL-SERVICES'],
  ['filter', 'KUBE-PROXY-FIREWALL'],
  ['filter', 'KUBE-NODEPORTS'],
] as const

/** Chains of a Service port, and rules with its name, that nothing wants; only where iptables mode wants something. */
export function extraRules(
  port: PortOfChains,
  wanted: readonly WantedObject[],
  live: LiveObjects,
): readonly ExplainedObject[] {
  const saved = live.saved[port.family]
  const own = wanted.filter(
    (one): one is WantedRule =>
      (one.kind === 'chain' || one.kind === 'rule') && one.family === port.family && one.servicePort === port.name,
  )
  if (saved === undefined || own.length === 0) return []
  return [...extraChains(port, own, saved), ...extraSharedRules(port, own, saved)]
}

function extraChains({ name, protocol, family }: PortOfChains, own: readonly WantedRule[], saved: SavedTables) {
  const chains = new Set(own.filter(({ kind }) => kind === 'chain').map(({ chain }) => chain))
  return SERVICE_CHAINS.flatMap((kind): ExplainedObject[] => {
    const chain = serviceChain(kind, chainHash(name + protocol))
    const rules = saved.get('nat')?.get(chain)
    if (rules === undefined || chains.has(chain)) return []
    return [
      {
        kind: 'chain',
        frontend: null,
        name: chain,
        place: 'nat',
        state: 'extra',
        means: 'it has no effect unless a rule jumps to it',
        commands: [formatIptablesOperation({ kind: 'delete-chain', table: 'nat', chain }, family, '')],
        rules,
      },
    ]
  })
}

function extraSharedRules({ name }: PortOfChains, own: readonly WantedRule[], saved: SavedTables): ExplainedObject[] {
  return SHARED.flatMap(([table, chain]) => {
    const known = new Set(
      own.flatMap((one) =>
        one.kind === 'rule' && one.table === table && one.chain === chain ? [canonicalRule(one.rule)] : [],
      ),
    )
    const rules = saved.get(table)?.get(chain) ?? []
    return rules
      .filter((rule) => isAbout(rule, name) && !known.has(canonicalRule(rule)))
      .map(
        (rule): ExplainedObject => ({
          kind: 'rule',
          frontend: null,
          name: rule,
          place: `${table} ${chain}`,
          state: 'extra',
          means: 'it may send connections elsewhere, or refuse them, before the rules of the daemon see them',
          commands: [],
        }),
      )
  })
}

/** Whether the comment of a rule names this Service port. */
export function isAbout(rule: string, servicePort: string): boolean {
  const comment = ruleOptions(rule).find(({ name }) => name === '--comment')?.values[0] ?? ''
  return comment === servicePort || comment.startsWith(`${servicePort} `)
}
