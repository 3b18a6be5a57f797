/**
 * Reads rules of nf_tables in the tables of iptables over nfnetlink, and deletes single ones: for
 * tables that the programs of iptables cannot print, or print wrongly, because they hold rules that
 * were made without iptables.
 * @impure
 */
import { type MessageBatch, requestOf } from '../netlink/batch.ts'
import type { CallOptions, DumpOptions, NetlinkConnection } from '../netlink/connection.ts'
import { NLM_F_DUMP } from '../netlink/constants.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { encodeBatchBegin, encodeBatchEnd, netfilterFamily, NFNL_SUBSYS } from '../netlink/nfnetlink-codec.ts'
import type { IpFamily } from '../values/protocol.ts'
import { decodeListedChain, NF_DROP } from './chain-message.ts'
import { type NftRuleContent, readExpressions } from './expressions.ts'
import type { NftChain, NftPlace, NftRule, NftRuleQuery } from './rule.ts'
import { noneWithoutNftables } from './tables.ts'
import { beginNft, nftAttributes } from './wire.ts'

// linux/netfilter/nf_tables.h
const NFTA_RULE_TABLE = 1
const NFTA_RULE_CHAIN = 2
const NFTA_RULE_HANDLE = 3
const NFTA_RULE_EXPRESSIONS = 4

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

/**
 * Deletes rules, each in a transaction of its own; one that is gone already counts as deleted.
 * Rejects with the first refusal.
 */
export async function deleteNftRules(
  netlink: NetlinkConnection,
  family: IpFamily,
  rules: readonly NftPlace[],
  options: CallOptions = {},
): Promise<void> {
  for (const rule of rules) {
    const outcomes = await netlink.transact(
      requestOf((batch) => encodeDeleteRule(batch, family, rule)),
      options,
    )
    const refusal = outcomes.find((outcome) => outcome !== undefined)
    if (refusal !== undefined && refusal.code !== 'ENOENT') throw refusal
  }
}

/** NFT_MSG_GETRULE of a table or chain. */
export function encodeListRules(batch: MessageBatch, { family, table, chain }: NftRuleQuery): void {
  beginNft(batch, 'GETRULE', NLM_F_DUMP, family, table)
  if (chain !== undefined) batch.string(NFTA_RULE_CHAIN, chain)
  batch.end()
}

/** A rule of a dump; undefined for one that was not asked for: old kernels list more. */
export function decodeRule(message: ReceivedMessage, query: NftRuleQuery): NftRule | undefined {
  const attributes = nftAttributes(message, 'NEWRULE')
  const { family } = query
  if (netfilterFamily(message) !== family) return undefined
  let table = ''
  let chain = ''
  let handle = 0n
  let content: NftRuleContent | undefined
  while (attributes.next())
    switch (attributes.type) {
      case NFTA_RULE_TABLE:
        table = attributes.string()
        if (table !== query.table) return undefined
        break
      case NFTA_RULE_CHAIN:
        chain = attributes.string()
        if (query.chain !== undefined && chain !== query.chain) return undefined
        break
      case NFTA_RULE_HANDLE:
        handle = attributes.u64be()
        break
      case NFTA_RULE_EXPRESSIONS:
        content = readExpressions(attributes.nested(), family)
        break
      default:
    }
  return { table, chain, handle, ...(content ?? NOTHING) }
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

function encodeListChains(batch: MessageBatch, family: IpFamily): void {
  beginNft(batch, 'GETCHAIN', NLM_F_DUMP, family)
  batch.end()
}

function chainOf(message: ReceivedMessage, family: IpFamily, table: string): NftChain | undefined {
  const { table: of, name, hook, policy } = decodeListedChain(message)
  if (netfilterFamily(message) !== family || of !== table) return undefined
  return { name, isBase: hook !== undefined, policy: policy === NF_DROP ? 'drop' : 'accept' }
}

/** A whole transaction. */
export function encodeDeleteRule(batch: MessageBatch, family: IpFamily, { table, chain, handle }: NftPlace): void {
  encodeBatchBegin(batch, NFNL_SUBSYS.NFTABLES)
  beginNft(batch, 'DELRULE', 0, family, table)
  batch.string(NFTA_RULE_CHAIN, chain)
  batch.binary(NFTA_RULE_HANDLE, bigEndian(handle))
  batch.end()
  encodeBatchEnd(batch, NFNL_SUBSYS.NFTABLES)
}

function bigEndian(value: bigint): Uint8Array {
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setBigUint64(0, value)
  return bytes
}
