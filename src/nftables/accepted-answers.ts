/**
 * Which base chains of nf_tables accept packets of established connections, whatever else these are:
 * by a rule with no condition but the state of the connection, native or of iptables-nft, in the
 * chain itself or in one that it leads to. Read-only.
 * @impure
 */
import { requestOf } from '../netlink/batch.ts'
import type { DumpOptions, NetlinkConnection } from '../netlink/connection.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { type RuleForAnswers, ruleForAnswers } from './rule-for-answers.ts'
import { decodeRuleMessage, encodeListRules, type NftFamily } from './rule-message.ts'

export interface TableName {
  readonly family: NftFamily
  readonly table: string
}

export interface AcceptedAnswersOptions extends DumpOptions {
  /** Chains whose rules do not count. */
  readonly isLeftOut: (chain: string) => boolean
}

/** What the rules of a chain do with such packets. */
interface ChainForAnswers {
  accepts: boolean
  /** A rule drops all that reaches it, and what follows does not count. */
  drops: boolean
  /** A map of verdicts, whose elements are not read, may lead to any chain. */
  leadsAnywhere: boolean
  readonly leadsTo: Set<string>
}

/** Those of the base chains of a table that do. */
export async function chainsThatAcceptAnswers(
  netlink: NetlinkConnection,
  { family, table }: TableName,
  bases: readonly string[],
  { isLeftOut, ...options }: AcceptedAnswersOptions,
): Promise<readonly string[]> {
  const chains = new Map<string, ChainForAnswers>()
  const visit = (message: ReceivedMessage): undefined => {
    const { chain = '', expressions } = decodeRuleMessage(message, { family, table }) ?? {}
    if (expressions !== undefined && !isLeftOut(chain)) note(chains, chain, ruleForAnswers(expressions))
  }
  await netlink.dump(
    requestOf((batch) => encodeListRules(batch, { family, table })),
    visit,
    { ...options, onRestart: () => chains.clear() },
  )
  return bases.filter((base) => isAnyAccepting(chains, base, bases))
}

function note(
  chains: Map<string, ChainForAnswers>,
  name: string,
  { accepts, drops, leadsTo, leadsAnywhere }: RuleForAnswers,
): void {
  if (!accepts && !drops && leadsTo === '' && !leadsAnywhere) return
  const chain = chains.get(name) ?? { accepts: false, drops: false, leadsAnywhere: false, leadsTo: new Set<string>() }
  if (chain.drops) return
  chains.set(name, chain)
  chain.accepts ||= accepts
  chain.drops ||= drops
  chain.leadsAnywhere ||= leadsAnywhere
  if (leadsTo !== '') chain.leadsTo.add(leadsTo)
}

/** Whether one of the chains accepts that are reached from a base chain; nothing leads to another base chain. */
function isAnyAccepting(chains: ReadonlyMap<string, ChainForAnswers>, base: string, bases: readonly string[]): boolean {
  const reached = new Set([base])
  for (const name of reached) {
    const chain = chains.get(name)
    if (chain === undefined) continue
    if (chain.accepts) return true
    for (const target of chain.leadsTo) reached.add(target)
    if (chain.leadsAnywhere) for (const other of chains.keys()) if (!bases.includes(other)) reached.add(other)
  }
  return false
}
