/** Chains of the private table and their rules on the wire. */
import type { MessageBatch } from '../netlink/batch.ts'
import { NLM_F_CREATE } from '../netlink/constants.ts'
import { netlinkError } from '../netlink/errors.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { netfilterFamily } from '../netlink/nfnetlink-codec.ts'
import type { IpFamily } from '../values/protocol.ts'
import { decodeExpression, type Expression } from './expression-codec.ts'
import { canonicalStatement } from './canonical.ts'
import {
  decodeListedChain,
  HOOKS,
  NF_ACCEPT,
  NFTA_CHAIN_HOOK,
  NFTA_CHAIN_NAME,
  NFTA_CHAIN_POLICY,
  NFTA_CHAIN_TYPE,
  NFTA_HOOK_HOOKNUM,
  NFTA_HOOK_PRIORITY,
} from './chain-message.ts'
import { decodeRuleMessage, NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS, NFTA_RULE_USERDATA } from './rule-message.ts'
import { encodeNetworks, messagesOfNetworks } from './set-codec.ts'
import { type AnonymousSet, encodeStatement } from './statement-encoder.ts'
import { type NftChain, type NftRule, type NftStatement, PRIVATE_TABLE } from './types.ts'
import { beginNft } from './wire.ts'

const NLM_F_APPEND = 0x800
/** NFTNL_UDATA_RULE_COMMENT */
const COMMENT = 0
/** With its NUL; nft takes no longer one. */
const MAX_COMMENT_BYTES = 129

const TYPES = ['filter', 'nat'] as const

/** NFT_MSG_NEWCHAIN, without rules. A base chain lets pass what its rules do not decide. */
export function encodeNewChain(batch: MessageBatch, { family, name, hook }: NftChain, table = PRIVATE_TABLE): void {
  beginNft(batch, 'NEWCHAIN', NLM_F_CREATE, family, table)
  batch.string(NFTA_CHAIN_NAME, name)
  if (hook !== undefined) {
    const nest = batch.nest(NFTA_CHAIN_HOOK)
    batch.u32be(NFTA_HOOK_HOOKNUM, HOOKS.indexOf(hook.hook))
    batch.u32be(NFTA_HOOK_PRIORITY, hook.priority >>> 0)
    batch.endNest(nest)
    batch.u32be(NFTA_CHAIN_POLICY, NF_ACCEPT)
    batch.string(NFTA_CHAIN_TYPE, hook.type)
  }
  batch.end()
}

/** NFT_MSG_DELCHAIN; EBUSY while it has rules, or something jumps to it. */
export function encodeDeleteChain(batch: MessageBatch, family: IpFamily, name: string): void {
  beginNft(batch, 'DELCHAIN', 0, family, PRIVATE_TABLE)
  batch.string(NFTA_CHAIN_NAME, name)
  batch.end()
}

/** NFT_MSG_DELRULE of all rules of a chain. */
export function encodeFlushChain(batch: MessageBatch, family: IpFamily, name: string): void {
  beginNft(batch, 'DELRULE', 0, family, PRIVATE_TABLE)
  batch.string(NFTA_RULE_CHAIN, name)
  batch.end()
}

/** The most messages that encodeRule adds for one rule. */
export function messagesOf(rule: NftRule): number {
  let messages = 1
  for (const statement of rule.statements)
    if (statement.kind === 'networks') messages += messagesOfNetworks(statement.cidrs.length)
  return messages
}

/**
 * NFT_MSG_NEWRULE at the end of a chain, after the anonymous sets that it needs.
 * @param firstId NFTA_SET_ID of the first of these sets, unique in the transaction; 0 is for none
 */
export function encodeRule(
  batch: MessageBatch,
  family: IpFamily,
  chain: string,
  rule: NftRule,
  firstId: number,
  table = PRIVATE_TABLE,
): void {
  const statements = rule.statements.map((statement) => canonicalStatement(statement, family))
  // The kernel puts a number in the place of %d; the rule finds its set by the id.
  const sets = new Map<NftStatement, AnonymousSet>()
  for (const statement of statements) {
    if (statement.kind !== 'networks') continue
    const set = { name: '__set%d', id: firstId + sets.size }
    sets.set(statement, set)
    encodeNetworks(batch, family, set, statement.cidrs)
  }
  beginNft(batch, 'NEWRULE', NLM_F_CREATE | NLM_F_APPEND, family, table)
  batch.string(NFTA_RULE_CHAIN, chain)
  const list = batch.nest(NFTA_RULE_EXPRESSIONS)
  for (const statement of statements) encodeStatement(batch, statement, family, sets.get(statement))
  batch.endNest(list)
  if (rule.comment !== undefined) batch.binary(NFTA_RULE_USERDATA, commentBytes(rule.comment))
  batch.end()
}

function commentBytes(comment: string): Uint8Array {
  const text = Buffer.from(`${comment}\0`, 'utf8')
  if (text.length > MAX_COMMENT_BYTES)
    throw netlinkError('netlink-unencodable', `a comment of ${text.length - 1} bytes, at most ${MAX_COMMENT_BYTES - 1}`)
  return Uint8Array.of(COMMENT, text.length, ...text)
}

/** A chain of a dump, without its rules; undefined for one of another table. */
export function decodeChain(message: ReceivedMessage): NftChain | undefined {
  const family = netfilterFamily(message)
  const { table, name, hook, type, policy } = decodeListedChain(message)
  if (family === undefined || table !== PRIVATE_TABLE || name === '') return undefined
  const chain = { kind: 'chain', family, name, rules: [] } as const
  if (hook === undefined) return chain
  const known = TYPES.find((one) => one === type)
  if (hook.name === undefined || known === undefined || policy !== NF_ACCEPT) return { ...chain, isForeign: true }
  return { ...chain, hook: { type: known, hook: hook.name, priority: hook.priority } }
}

/** A rule whose expressions were read, but not yet the anonymous sets that they name. */
export interface ListedRule {
  readonly chain: string
  readonly expressions: readonly Expression[]
  readonly comment: string | undefined
}

/** A rule of a dump; undefined for one of another table. */
export function decodePrivateRule(message: ReceivedMessage, family: IpFamily): ListedRule | undefined {
  const rule = decodeRuleMessage(message, { family, table: PRIVATE_TABLE })
  if (rule === undefined) return undefined
  const expressions: Expression[] = []
  while (rule.expressions?.next()) expressions.push(decodeExpression(rule.expressions.nested()))
  return { chain: rule.chain, expressions, comment: rule.userData && commentOf(rule.userData) }
}

/** Records of libnftnl; anybody may write others, which count as none. */
function commentOf(records: Uint8Array): string | undefined {
  for (let at = 0; at + 2 <= records.length; ) {
    const size = records[at + 1] ?? 0
    if (at + 2 + size > records.length) return undefined
    if (records[at] === COMMENT) {
      const text = records.subarray(at + 2, at + 2 + size)
      const nul = text.indexOf(0)
      return Buffer.from(nul < 0 ? text : text.subarray(0, nul)).toString('utf8')
    }
    at += 2 + size
  }
  return undefined
}
