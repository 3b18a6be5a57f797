/**
 * Chains of other firewalls that drop packets of Services whatever the nftables firewall accepts: an
 * accept ends only its own table, and a base chain whose policy or last rule drops decides by itself.
 */
import { askNetfilter } from '../../../native/open.ts'
import { isBesideIptables, listNftBaseChains, type NftBaseChain } from '../../nftables/chains.ts'
import { restOfChain } from '../../nftables/chain-rest.ts'
import { chainsThatAcceptAnswers, type TableName } from '../../nftables/accepted-answers.ts'
import { PRIVATE_TABLE } from '../../nftables/types.ts'
import type { ProblemLog } from '../../serve/problem-log.ts'
import type { AuditShare } from '../../sync/audit.ts'
import type { Budget } from '../../values/budget.ts'
import type { Problem } from '../../values/errors.ts'
import { newAuditBudget, newBudget } from '../../values/event-loop.ts'
import { firstNames } from '../../values/lists.ts'
import type { Log } from '../../values/log.ts'
import { CLEANUP_LAYOUT } from '../leftovers/layouts.ts'

export interface DroppingChain {
  /** `ip filter` */
  readonly table: string
  readonly chain: string
  readonly hook: 'input' | 'forward'
  /** Rules of iptables are in this chain, so those of iptables mode too. */
  readonly isOfIptables: boolean
}

/** Tables of proxies of Kubernetes decide about traffic of Services on purpose. */
const OF_PROXIES: ReadonlySet<string> = new Set([PRIVATE_TABLE, 'kube-proxy'])

/**
 * Without those of the hook forward that accept answers by the state of their connection. Rules of a
 * proxy do not count: they are removed once the nftables firewall serves. None where the kernel has
 * no nf_tables. Starts no program, so chains of iptables-legacy are not seen.
 * @param budget a table may have very many rules
 */
export async function droppingChains(
  signal: AbortSignal,
  budget: Budget = newBudget(),
): Promise<readonly DroppingChain[]> {
  return askNetfilter([], async (netlink) => {
    const chains: NftBaseChain[] = []
    for (const base of await listNftBaseChains(netlink, { signal, budget })) {
      const isLeftOut = (chain: string): boolean => isOfProxy(base, chain)
      const decides = base.hook === 'forward' && droppingAmong([{ ...base, policy: 'drop' }]).length > 0
      // A reject does the same as a drop.
      const rest = decides ? await restOfChain(netlink, base, { isLeftOut, signal, budget }) : base.policy
      chains.push({ ...base, policy: rest === 'accept' ? 'accept' : 'drop' })
    }
    const dropping = droppingAmong(chains)
    const accepting = new Set<string>()
    for (const table of new Set(dropping.map((one) => one.table))) {
      const [first] = chains.filter((base) => tableOf(base) === table)
      if (first === undefined || !dropping.some((one) => one.hook === 'forward' && one.table === table)) continue
      const bases = chains.flatMap((base) => (tableOf(base) === table ? [base.chain] : []))
      const isLeftOut = (chain: string): boolean => isOfProxy(first, chain)
      for (const chain of await chainsThatAcceptAnswers(netlink, first, bases, { isLeftOut, signal, budget }))
        accepting.add(`${table} ${chain}`)
    }
    return dropping.filter(({ hook, table, chain }) => hook === 'input' || !accepting.has(`${table} ${chain}`))
  })
}

function isOfProxy({ family, table }: TableName, chain: string): boolean {
  const known = family === 'inet' ? undefined : CLEANUP_LAYOUT.tables.find((one) => one === table)
  return known !== undefined && CLEANUP_LAYOUT.owns(known, chain)
}

function tableOf({ family, table }: NftBaseChain): string {
  return `${family} ${table}`
}

/** @param chains a rule without conditions counts as the policy of the chain that it ends */
export function droppingAmong(chains: readonly NftBaseChain[]): readonly DroppingChain[] {
  return chains.flatMap((base): readonly DroppingChain[] => {
    const { table, chain, hook, type, policy } = base
    if (policy !== 'drop' || type !== 'filter' || OF_PROXIES.has(table)) return []
    if (hook !== 'input' && hook !== 'forward') return []
    return [{ table: tableOf(base), chain, hook, isOfIptables: !isBesideIptables(base) }]
  })
}

/** The command that adds the rule which the chain needs: for answers in front of a rule that drops. */
export function ruleToAdd({ table, chain, hook, isOfIptables }: DroppingChain): string {
  if (isOfIptables) {
    const program = table.startsWith('ip6 ') ? 'ip6tables' : 'iptables'
    return hook === 'forward'
      ? `${program} -I ${chain} -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT`
      : `${program} -A ${chain} -d SERVICE-ADDRESSES -j ACCEPT`
  }
  return hook === 'forward'
    ? `nft insert rule ${table} ${chain} ct state established,related accept`
    : `nft add rule ${table} ${chain} ${addressField(table)} daddr SERVICE-ADDRESSES accept`
}

function addressField(table: string): 'ip' | 'ip6' {
  return table.startsWith('ip6 ') ? 'ip6' : 'ip'
}

/** Chains that a message names. */
const NAMED = 5

export interface DroppingReport {
  readonly problems: Pick<ProblemLog, 'report'>
  readonly log: Log
  readonly signal: AbortSignal
  /** That of all audits, where this is one. */
  readonly share?: AuditShare
  /** A test replaces it. */
  readonly dropping?: typeof droppingChains
}

/** Chains at the hook input that were logged. */
export type LoggedChains = Set<string>

/**
 * Reports as a problem the chains that drop answers, while the nftables firewall runs, and logs
 * once those that may drop what clients send: only their owner knows whether their rules accept it,
 * and they do the same to the firewall of iptables. Rejects only when aborted.
 */
export async function reportDropping(
  { problems, log, signal, share, dropping: find = droppingChains }: DroppingReport,
  logged: LoggedChains,
): Promise<void> {
  const budget = newAuditBudget()
  try {
    const dropping = await find(signal, budget)
    const ofAnswers = dropping.filter(({ hook }) => hook === 'forward')
    problems.report('firewall', 'policies', droppingProblems(ofAnswers))
    for (const one of dropping) {
      const key = `${one.table} ${one.chain}`
      if (one.hook !== 'input' || logged.has(key)) continue
      logged.add(key)
      log.warn('A chain of another firewall drops packets to Services that its rules do not accept', {
        chain: key,
        rule: ruleToAdd(one),
      })
    }
  } catch (error) {
    signal.throwIfAborted()
    log.warn('Cannot ask the kernel for chains of other firewalls', { error })
  }
  await share?.rest(budget, signal)
}

/** One problem for all of them; none where there are none. */
export function droppingProblems(dropping: readonly DroppingChain[]): readonly Problem[] {
  if (dropping.length === 0) return []
  return [{ code: 'policy-drops', about: 'node', subject: 'nftables', message: droppingText(dropping) }]
}

export function droppingText(dropping: readonly DroppingChain[]): string {
  const named = dropping
    .slice(0, NAMED)
    .map((one) => `chain ${one.chain} of table ${one.table} drops answers to clients: "${ruleToAdd(one)}"`)
  const first = firstNames(named, NAMED, dropping.length, '; ')
  return `an accept of the nftables firewall does not overrule a drop of another table; ${first}`
}
