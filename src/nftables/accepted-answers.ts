/**
 * Which tables of nf_tables accept packets of established connections, whatever else they are: a
 * rule with no condition but the state of the connection, native or of iptables-nft. Read-only.
 * @impure
 */
import type { AttributeCursor } from '../netlink/attributes.ts'
import { type MessageBatch, requestOf } from '../netlink/batch.ts'
import type { CallOptions, NetlinkConnection } from '../netlink/connection.ts'
import { NLM_F_DUMP } from '../netlink/constants.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { beginNetfilter, netfilterAttributes, NFNL_SUBSYS } from '../netlink/nfnetlink-codec.ts'
import type { NftFamily } from './chains.ts'

// linux/netfilter/nf_tables.h
const NFT_MSG_NEWRULE = 6
const NFT_MSG_GETRULE = 7
const NFTA_RULE_TABLE = 1
const NFTA_RULE_EXPRESSIONS = 4
const NFTA_LIST_ELEM = 1
const NFTA_EXPR_NAME = 1
const NFTA_EXPR_DATA = 2
const NFTA_CT_KEY = 2
const NFT_CT_STATE = 0
const NFTA_LOOKUP_DREG = 3
const NFT_REG_VERDICT = 0
const NFTA_IMMEDIATE_DATA = 2
const NFTA_DATA_VERDICT = 2
const NFTA_VERDICT_CODE = 1
const NF_ACCEPT = 1
const NFTA_MATCH_NAME = 1

const NUMBERED = { inet: 'inet', ip: 'IPv4', ip6: 'IPv6' } as const satisfies Readonly<Record<NftFamily, string>>

/** What compares a value that was loaded before, or changes nothing. */
const NO_CONDITIONS: ReadonlySet<string> = new Set(['bitwise', 'cmp', 'counter', 'log'])
/** Matches of iptables. */
const STATE_MATCHES: ReadonlySet<string> = new Set(['conntrack', 'state'])

export interface TableName {
  readonly family: NftFamily
  readonly table: string
}

/** Those of the tables that do, as `inet filter`. A map of states counts, because it may accept them. */
export async function tablesThatAcceptAnswers(
  netlink: NetlinkConnection,
  tables: readonly TableName[],
  options: CallOptions = {},
): Promise<ReadonlySet<string>> {
  const found = new Set<string>()
  for (const { family, table } of tables) {
    const visit = (message: ReceivedMessage): undefined => {
      if (acceptsAnswers(message, table)) found.add(`${family} ${table}`)
    }
    await netlink.dump(
      requestOf((batch) => encodeListRules(batch, { family, table })),
      visit,
      options,
    )
  }
  return found
}

/** NFT_MSG_GETRULE. Without a family the kernel lists only the first table of that name. */
export function encodeListRules(batch: MessageBatch, { family, table }: TableName): void {
  beginNetfilter(batch, NFNL_SUBSYS.NFTABLES, NFT_MSG_GETRULE, NLM_F_DUMP, 'NFT_MSG_GETRULE', NUMBERED[family])
  batch.string(NFTA_RULE_TABLE, table)
  batch.end()
}

/** Whether this rule of a dump is in the table, and accepts by the state of the connection alone. */
export function acceptsAnswers(message: ReceivedMessage, table: string): boolean {
  const attributes = netfilterAttributes(message, NFNL_SUBSYS.NFTABLES, NFT_MSG_NEWRULE, 'NFT_MSG_NEWRULE')
  let isInTable = false
  let accepts = false
  while (attributes.next())
    if (attributes.type === NFTA_RULE_TABLE) isInTable = attributes.string() === table
    else if (attributes.type === NFTA_RULE_EXPRESSIONS) accepts = acceptsByState(attributes.nested())
  return isInTable && accepts
}

function acceptsByState(expressions: AttributeCursor): boolean {
  let hasState = false
  let accepts = false
  while (expressions.next()) {
    if (expressions.type !== NFTA_LIST_ELEM) continue
    const { name, data } = expressionOf(expressions.nested())
    const match = name === 'match' ? data?.copy() : undefined
    const what = name === 'match' ? textOf(match, NFTA_MATCH_NAME) : name
    if (what === 'ct' && numberOf(data, NFTA_CT_KEY) === NFT_CT_STATE) hasState = true
    else if (name === 'match' && STATE_MATCHES.has(what)) hasState = true
    else if (what === 'immediate') accepts ||= verdictCode(data) === NF_ACCEPT
    else if (what === 'lookup') accepts ||= numberOf(data, NFTA_LOOKUP_DREG) === NFT_REG_VERDICT
    else if (what !== 'comment' && (name === 'match' || !NO_CONDITIONS.has(what))) return false
  }
  return hasState && accepts
}

function expressionOf(element: AttributeCursor): { readonly name: string; readonly data: AttributeCursor | undefined } {
  let name = ''
  let data: AttributeCursor | undefined
  while (element.next())
    if (element.type === NFTA_EXPR_NAME) name = element.string()
    else if (element.type === NFTA_EXPR_DATA) data = element.nested()
  return { name, data }
}

function textOf(data: AttributeCursor | undefined, type: number): string {
  while (data?.next() === true) if (data.type === type) return data.string()
  return ''
}

function numberOf(data: AttributeCursor | undefined, type: number): number | undefined {
  const again = data?.copy()
  while (again?.next() === true) if (again.type === type) return again.u32be()
  return undefined
}

function verdictCode(data: AttributeCursor | undefined): number | undefined {
  while (data?.next() === true) {
    if (data.type !== NFTA_IMMEDIATE_DATA) continue
    const value = data.nested()
    while (value.next()) if (value.type === NFTA_DATA_VERDICT) return numberOf(value.nested(), NFTA_VERDICT_CODE)
  }
  return undefined
}
