/**
 * Reads rules of nf_tables in the tables of iptables over nfnetlink, and deletes single ones: for
 * tables that the programs of iptables cannot print, or print wrongly, because they hold rules that
 * were made without iptables.
 * @impure
 */
import { type MessageBatch, requestOf } from '../netlink/batch.ts'
import type { CallOptions, NetlinkConnection } from '../netlink/connection.ts'
import { NLM_F_DUMP } from '../netlink/constants.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import {
  beginNetfilter,
  encodeBatchBegin,
  encodeBatchEnd,
  netfilterAttributes,
  netfilterFamily,
  NFNL_SUBSYS,
} from '../netlink/nfnetlink-codec.ts'
import type { IpFamily } from '../values/protocol.ts'
import { type NftRuleContent, readExpressions } from './expressions.ts'
import type { NftChain, NftPlace, NftRule, NftRuleQuery } from './rule.ts'

// linux/netfilter/nf_tables.h
const NFT_MSG_NEWCHAIN = 3
const NFT_MSG_GETCHAIN = 4
const NFT_MSG_NEWRULE = 6
const NFT_MSG_GETRULE = 7
const NFT_MSG_DELRULE = 8
const NFTA_CHAIN_TABLE = 1
const NFTA_CHAIN_NAME = 3
const NFTA_CHAIN_HOOK = 4
const NFTA_CHAIN_POLICY = 5
const NF_DROP = 0
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
  options: CallOptions & { readonly onRestart?: () => void } = {},
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

/** The chains of a table; none when there is no such table. */
export async function listNftChains(
  netlink: NetlinkConnection,
  family: IpFamily,
  table: string,
  options: CallOptions = {},
): Promise<readonly NftChain[]> {
  return netlink.dump(
    requestOf((batch) => encodeListChains(batch, family)),
    (message) => decodeChain(message, family, table),
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
  beginNetfilter(batch, NFNL_SUBSYS.NFTABLES, NFT_MSG_GETRULE, NLM_F_DUMP, 'NFT_MSG_GETRULE', family)
  batch.string(NFTA_RULE_TABLE, table)
  if (chain !== undefined) batch.string(NFTA_RULE_CHAIN, chain)
  batch.end()
}

/** A rule of a dump; undefined for one that was not asked for: old kernels list more. */
export function decodeRule(message: ReceivedMessage, query: NftRuleQuery): NftRule | undefined {
  const attributes = netfilterAttributes(message, NFNL_SUBSYS.NFTABLES, NFT_MSG_NEWRULE, 'NFT_MSG_NEWRULE')
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
  beginNetfilter(batch, NFNL_SUBSYS.NFTABLES, NFT_MSG_GETCHAIN, NLM_F_DUMP, 'NFT_MSG_GETCHAIN', family)
  batch.end()
}

function decodeChain(message: ReceivedMessage, family: IpFamily, table: string): NftChain | undefined {
  const attributes = netfilterAttributes(message, NFNL_SUBSYS.NFTABLES, NFT_MSG_NEWCHAIN, 'NFT_MSG_NEWCHAIN')
  if (netfilterFamily(message) !== family) return undefined
  let of = ''
  let name = ''
  let isBase = false
  let policy: NftChain['policy'] = 'accept'
  while (attributes.next())
    if (attributes.type === NFTA_CHAIN_TABLE) of = attributes.string()
    else if (attributes.type === NFTA_CHAIN_NAME) name = attributes.string()
    else if (attributes.type === NFTA_CHAIN_HOOK) isBase = true
    else if (attributes.type === NFTA_CHAIN_POLICY && attributes.u32be() === NF_DROP) policy = 'drop'
  return of === table ? { name, isBase, policy } : undefined
}

/** A whole transaction. */
export function encodeDeleteRule(batch: MessageBatch, family: IpFamily, { table, chain, handle }: NftPlace): void {
  encodeBatchBegin(batch, NFNL_SUBSYS.NFTABLES)
  beginNetfilter(batch, NFNL_SUBSYS.NFTABLES, NFT_MSG_DELRULE, 0, 'NFT_MSG_DELRULE', family)
  batch.string(NFTA_RULE_TABLE, table)
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
