/**
 * Reads rules of nf_tables in the tables of iptables over nfnetlink: for tables that the programs of
 * iptables cannot print, or print wrongly, because they hold rules that were made without iptables.
 * @impure
 */
import { requestOf } from '../netlink/batch.ts'
import type { CallOptions, DumpOptions, NetlinkConnection } from '../netlink/connection.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { netfilterFamily } from '../netlink/nfnetlink-codec.ts'
import type { IpFamily } from '../values/protocol.ts'
import { decodeListedChain, encodeListChains, NF_DROP } from './chain-message.ts'
import { type NftRuleContent, readExpressions } from './expressions.ts'
import type { NftChain, NftRule, NftRuleQuery } from './rule.ts'
import { decodeRuleMessage, encodeListRules } from './rule-message.ts'
import { noneWithoutNftables } from './tables.ts'

/**
 * The rules in the order of each chain. `netlink` is of NETLINK_NETFILTER. A table or chain that
 * does not exist has none.
 */
export async function listNftRules(
  netlink: NetlinkConnection,
  query: NftRuleQuery,
  options: CallOptions = {},
): Promise<readonly NftRule[]> {
  return netlink.dump(
    requestOf((batch) => encodeListRules(batch, query)),
    (message) => decodeRule(message, query),
    options,
  )
}

/**
 * The same without a list: a table may have very many rules. Begins again when the table changes
 * meanwhile, and then calls `onRestart`.
 */
export async function visitNftRules(
  netlink: NetlinkConnection,
  query: NftRuleQuery,
  visit: (rule: NftRule) => void,
  options: DumpOptions = {},
): Promise<void> {
  const decode = (message: ReceivedMessage): undefined => {
    const rule = decodeRule(message, query)
    if (rule !== undefined) visit(rule)
  }
  await netlink.dump(
    requestOf((batch) => encodeListRules(batch, query)),
    decode,
    options,
  )
}

/** The names of the chains of each table of a family, by the table; none when the kernel has no nf_tables. */
export async function listNftChainNames(
  netlink: NetlinkConnection,
  family: IpFamily,
  options: DumpOptions = {},
): Promise<ReadonlyMap<string, readonly string[]>> {
  const listed = await noneWithoutNftables(
    netlink.dump(
      requestOf((batch) => encodeListChains(batch, family)),
      (message) => (netfilterFamily(message) === family ? decodeListedChain(message) : undefined),
      options,
    ),
  )
  const names = new Map<string, string[]>()
  for (const { table, name } of listed) {
    const ofTable = names.get(table)
    if (ofTable === undefined) names.set(table, [name])
    else ofTable.push(name)
  }
  return names
}

/** The chains of a table; none when there is no such table. */
export async function listNftChains(
  netlink: NetlinkConnection,
  family: IpFamily,
  table: string,
  options: CallOptions = {},
): Promise<readonly NftChain[]> {
  return netlink.dump(
    requestOf((batch) => encodeListChains(batch, family)),
    (message) => chainOf(message, family, table),
    options,
  )
}

/** A rule of a dump; undefined for one that was not asked for. */
export function decodeRule(message: ReceivedMessage, query: NftRuleQuery): NftRule | undefined {
  const rule = decodeRuleMessage(message, query)
  if (rule === undefined) return undefined
  const { chain, handle, expressions } = rule
  const content = expressions === undefined ? NOTHING : readExpressions(expressions, query.family)
  return { table: query.table, chain, handle, ...content }
}

/** A rule without expressions. */
const NOTHING: NftRuleContent = {
  verdict: undefined,
  isExact: true,
  isPlain: true,
  hasOtherEffect: false,
  matches: [],
  comment: '',
}

function chainOf(message: ReceivedMessage, family: IpFamily, table: string): NftChain | undefined {
  const { table: of, name, hook, policy } = decodeListedChain(message)
  if (netfilterFamily(message) !== family || of !== table) return undefined
  return { name, isBase: hook !== undefined, policy: policy === NF_DROP ? 'drop' : 'accept' }
}
