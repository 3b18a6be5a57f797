/**
 * Chains of nf_tables on the wire, of every table: the attributes of messages about them, and what
 * such a message says. Which tables and hooks count is up to those who ask.
 */
import type { AttributeCursor } from '../netlink/attributes.ts'
import type { MessageBatch } from '../netlink/batch.ts'
import { NLM_F_DUMP } from '../netlink/constants.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import type { IpFamily } from '../values/protocol.ts'
import { beginNft, nftAttributes } from './wire.ts'

// linux/netfilter/nf_tables.h
export const NFTA_CHAIN_TABLE = 1
export const NFTA_CHAIN_NAME = 3
export const NFTA_CHAIN_HOOK = 4
export const NFTA_CHAIN_POLICY = 5
export const NFTA_CHAIN_TYPE = 7
export const NFTA_HOOK_HOOKNUM = 1
export const NFTA_HOOK_PRIORITY = 2

/** Verdicts of linux/netfilter.h, which are policies too. */
export const NF_DROP = 0
export const NF_ACCEPT = 1

/** NF_INET_* by number: the hooks of packets of IP. */
export const HOOKS = ['prerouting', 'input', 'forward', 'output', 'postrouting'] as const

export interface ListedChain {
  /** NFPROTO_* */
  readonly familyNumber: number
  readonly table: string
  readonly name: string
  /** Of a base chain. */
  readonly hook: ListedHook | undefined
  /** '' for a chain that is no base chain. */
  readonly type: string
  /** NF_ACCEPT where the kernel says none. */
  readonly policy: number
}

export interface ListedHook {
  /** undefined for a number that IP has no hook of. */
  readonly name: (typeof HOOKS)[number] | undefined
  /** The kernel calls the chains of a hook from the lowest one on. */
  readonly priority: number
}

/** NFT_MSG_GETCHAIN of a family, or of all; the kernel knows no other filter. */
export function encodeListChains(batch: MessageBatch, family?: IpFamily): void {
  beginNft(batch, 'GETCHAIN', NLM_F_DUMP, family)
  batch.end()
}

/** A chain of a dump, or of an announcement. */
export function decodeListedChain(message: ReceivedMessage): ListedChain {
  const attributes = nftAttributes(message, 'NEWCHAIN')
  // The family is the first byte of struct nfgenmsg.
  const familyNumber = message.bytes[message.start] ?? 0
  let [table, name, type] = ['', '', '']
  let policy = NF_ACCEPT
  let hook: ListedHook | undefined
  while (attributes.next())
    switch (attributes.type) {
      case NFTA_CHAIN_TABLE:
        table = attributes.string()
        break
      case NFTA_CHAIN_NAME:
        name = attributes.string()
        break
      case NFTA_CHAIN_HOOK:
        hook = hookOf(attributes.nested())
        break
      case NFTA_CHAIN_TYPE:
        type = attributes.string()
        break
      case NFTA_CHAIN_POLICY:
        policy = attributes.u32be()
        break
      default:
    }
  return { familyNumber, table, name, hook, type, policy }
}

function hookOf(attributes: AttributeCursor): ListedHook {
  let name: ListedHook['name']
  let priority = 0
  while (attributes.next())
    if (attributes.type === NFTA_HOOK_HOOKNUM) name = HOOKS[attributes.u32be()]
    else if (attributes.type === NFTA_HOOK_PRIORITY) priority = attributes.u32be() | 0
  return { name, priority }
}
