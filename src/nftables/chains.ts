/**
 * Lists the base chains of nf_tables at the hooks of IP packets, of every table: a drop of any of
 * them is final, whatever the rules of iptables accept, and one of type nat may translate a packet
 * before those of iptables do. Read-only.
 * @impure
 */
import type { AttributeCursor } from '../netlink/attributes.ts'
import { type MessageBatch, requestOf } from '../netlink/batch.ts'
import type { CallOptions, NetlinkConnection } from '../netlink/connection.ts'
import { NLM_F_DUMP } from '../netlink/constants.ts'
import { KernelError } from '../netlink/errors.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { beginNetfilter, netfilterAttributes, NFNL_SUBSYS } from '../netlink/nfnetlink-codec.ts'
import { PRIVATE_TABLE } from './types.ts'

// linux/netfilter/nf_tables.h
const NFT_MSG_NEWCHAIN = 3
const NFT_MSG_GETCHAIN = 4
const NFTA_CHAIN_TABLE = 1
const NFTA_CHAIN_NAME = 3
const NFTA_CHAIN_HOOK = 4
const NFTA_CHAIN_POLICY = 5
const NFTA_CHAIN_TYPE = 7
const NFTA_HOOK_HOOKNUM = 1
/** NF_DROP; NF_ACCEPT is 1. */
const NF_DROP = 0

export type NftFamily = 'inet' | 'ip' | 'ip6'

/** NFPROTO_* of linux/netfilter.h: the families through which packets of IP pass. */
export const FAMILIES: Readonly<Record<number, NftFamily>> = { 1: 'inet', 2: 'ip', 10: 'ip6' }
/** NF_INET_* hooks by their number. */
const HOOKS = ['prerouting', 'input', 'forward', 'output', 'postrouting'] as const

export interface NftBaseChain {
  readonly family: NftFamily
  readonly table: string
  readonly chain: string
  readonly hook: (typeof HOOKS)[number]
  /** `filter`, `nat`, `route` */
  readonly type: string
  readonly policy: 'accept' | 'drop'
}

/** None when the kernel has no nf_tables. `netlink` is of NETLINK_NETFILTER. */
export async function listNftBaseChains(
  netlink: NetlinkConnection,
  options: CallOptions = {},
): Promise<readonly NftBaseChain[]> {
  try {
    return await netlink.dump(requestOf(encodeListChains), decodeBaseChain, options)
  } catch (error) {
    // nfnetlink has no such subsystem.
    if (error instanceof KernelError && error.code === 'EINVAL') return []
    throw error
  }
}

/** NFT_MSG_GETCHAIN of all families. */
export function encodeListChains(batch: MessageBatch): void {
  beginNetfilter(batch, NFNL_SUBSYS.NFTABLES, NFT_MSG_GETCHAIN, NLM_F_DUMP, 'NFT_MSG_GETCHAIN')
  batch.end()
}

/** A base chain of a dump; undefined for any other chain, hook or family. */
export function decodeBaseChain(message: ReceivedMessage): NftBaseChain | undefined {
  const attributes = netfilterAttributes(message, NFNL_SUBSYS.NFTABLES, NFT_MSG_NEWCHAIN, 'NFT_MSG_NEWCHAIN')
  // The family is the first byte of struct nfgenmsg.
  const family = FAMILIES[message.bytes[message.start] ?? 0]
  let table = ''
  let chain = ''
  let hook: NftBaseChain['hook'] | undefined
  let policy: NftBaseChain['policy'] = 'accept'
  let type = ''
  while (attributes.next())
    switch (attributes.type) {
      case NFTA_CHAIN_TABLE:
        table = attributes.string()
        break
      case NFTA_CHAIN_NAME:
        chain = attributes.string()
        break
      case NFTA_CHAIN_HOOK:
        hook = hookOf(attributes.nested())
        break
      case NFTA_CHAIN_TYPE:
        type = attributes.string()
        break
      case NFTA_CHAIN_POLICY:
        policy = attributes.u32be() === NF_DROP ? 'drop' : 'accept'
        break
      default:
    }
  return family === undefined || hook === undefined ? undefined : { family, table, chain, hook, type, policy }
}

function hookOf(attributes: AttributeCursor): NftBaseChain['hook'] | undefined {
  while (attributes.next()) if (attributes.type === NFTA_HOOK_HOOKNUM) return HOOKS[attributes.u32be()]
  return undefined
}

/** Whether it is in the private table of the nftables firewall. */
export function isPrivateChain({ family, table }: NftBaseChain): boolean {
  return family !== 'inet' && table === PRIVATE_TABLE
}

/** Tables that iptables-nft makes. */
const OF_IPTABLES = /^(?:filter|nat|mangle|raw|security)$/

/** Whether rules of this chain are none that iptables shows: it is in another table, or a second chain at its hook. */
export function isBesideIptables({ family, table, chain, hook }: NftBaseChain): boolean {
  return family === 'inet' || !OF_IPTABLES.test(table) || chain !== hook.toUpperCase()
}
