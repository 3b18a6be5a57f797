/** Lists of rules of nf_tables: the message that asks for one, and the expressions of a rule in it. */
import type { AttributeCursor } from '../netlink/attributes.ts'
import type { MessageBatch } from '../netlink/batch.ts'
import { NLM_F_DUMP } from '../netlink/constants.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { beginNft, nftAttributes } from './wire.ts'

// linux/netfilter/nf_tables.h
const NFTA_RULE_TABLE = 1
const NFTA_RULE_CHAIN = 2
const NFTA_RULE_EXPRESSIONS = 4

const NUMBERED = { inet: 'inet', ip: 'IPv4', ip6: 'IPv6' } as const

/** A family through which packets of IP pass. */
export type NftFamily = keyof typeof NUMBERED

/** A table, or one chain of it. */
export interface ListedPlace {
  readonly family: NftFamily
  readonly table: string
  readonly chain?: string
}

/** NFT_MSG_GETRULE. Without a family the kernel lists only the first table of that name. */
export function encodeListRules(batch: MessageBatch, { family, table, chain }: ListedPlace): void {
  beginNft(batch, 'GETRULE', NLM_F_DUMP, NUMBERED[family], table)
  if (chain !== undefined) batch.string(NFTA_RULE_CHAIN, chain)
  batch.end()
}

/** A rule that was asked for; undefined for any other one, because old kernels list more. */
export function decodeListedRule(
  message: ReceivedMessage,
  place: ListedPlace,
): { readonly chain: string; readonly expressions: AttributeCursor } | undefined {
  const attributes = nftAttributes(message, 'NEWRULE')
  let [table, chain] = ['', '']
  let expressions: AttributeCursor | undefined
  while (attributes.next())
    if (attributes.type === NFTA_RULE_TABLE) table = attributes.string()
    else if (attributes.type === NFTA_RULE_CHAIN) chain = attributes.string()
    else if (attributes.type === NFTA_RULE_EXPRESSIONS) expressions = attributes.nested()
  const isAsked = table === place.table && chain === (place.chain ?? chain)
  return isAsked && expressions !== undefined ? { chain, expressions } : undefined
}
