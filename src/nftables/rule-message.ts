/** Lists of rules of nf_tables, of every table: the message that asks for one, and what a rule in it says. */
import type { AttributeCursor } from '../netlink/attributes.ts'
import type { MessageBatch } from '../netlink/batch.ts'
import { NLM_F_DUMP } from '../netlink/constants.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { netfilterFamily } from '../netlink/nfnetlink-codec.ts'
import type { IpFamily } from '../values/protocol.ts'
import { beginNft, nftAttributes } from './wire.ts'

// linux/netfilter/nf_tables.h
const NFTA_RULE_TABLE = 1
export const NFTA_RULE_CHAIN = 2
export const NFTA_RULE_HANDLE = 3
export const NFTA_RULE_EXPRESSIONS = 4
export const NFTA_RULE_USERDATA = 7

const NUMBERED = { inet: 'inet', ip: 'IPv4', ip6: 'IPv6', IPv4: 'IPv4', IPv6: 'IPv6' } as const

/** A family through which packets of IP pass, as nft names it. */
export type NftFamily = 'inet' | 'ip' | 'ip6'

/** A table, or one chain of it. */
export interface ListedPlace {
  readonly family: NftFamily | IpFamily
  readonly table: string
  readonly chain?: string
}

/** NFT_MSG_GETRULE. Without a family the kernel lists only the first table of that name. */
export function encodeListRules(batch: MessageBatch, { family, table, chain }: ListedPlace): void {
  beginNft(batch, 'GETRULE', NLM_F_DUMP, NUMBERED[family], table)
  if (chain !== undefined) batch.string(NFTA_RULE_CHAIN, chain)
  batch.end()
}

/** The attributes are those that their cursors stand at. */
export interface RuleMessage {
  readonly chain: string
  /** Number of the rule in its table, never used again. */
  readonly handle: bigint
  readonly expressions: AttributeCursor | undefined
  /** Records of libnftnl. */
  readonly userData: Uint8Array | undefined
}

/** A rule that was asked for; undefined for any other one, because old kernels list more. */
export function decodeRuleMessage(message: ReceivedMessage, place: ListedPlace): RuleMessage | undefined {
  const attributes = nftAttributes(message, 'NEWRULE')
  const family = NUMBERED[place.family]
  if (netfilterFamily(message) !== (family === 'inet' ? undefined : family)) return undefined
  let [table, chain] = ['', '']
  let handle = 0n
  let expressions: AttributeCursor | undefined
  let userData: Uint8Array | undefined
  while (attributes.next())
    switch (attributes.type) {
      case NFTA_RULE_TABLE:
        table = attributes.string()
        break
      case NFTA_RULE_CHAIN:
        chain = attributes.string()
        break
      case NFTA_RULE_HANDLE:
        handle = attributes.u64be()
        break
      case NFTA_RULE_EXPRESSIONS:
        expressions = attributes.nested()
        break
      case NFTA_RULE_USERDATA:
        userData = attributes.payload()
        break
      default:
    }
  const isAsked = table === place.table && chain === (place.chain ?? chain)
  return isAsked ? { chain, handle, expressions, userData } : undefined
}
