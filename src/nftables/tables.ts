/**
 * Lists and deletes whole tables of nf_tables over nfnetlink, without the program nft: only tables
 * of the families ip and ip6, by name. A table goes with everything in it.
 * @impure
 */
import { type MessageBatch, requestOf } from '../netlink/batch.ts'
import type { CallOptions, DumpOptions, NetlinkConnection } from '../netlink/connection.ts'
import { NLM_F_DUMP } from '../netlink/constants.ts'
import { KernelError } from '../netlink/errors.ts'
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

// linux/netfilter/nf_tables.h
const NFT_MSG_NEWTABLE = 0
const NFT_MSG_GETTABLE = 1
const NFT_MSG_DELTABLE = 2
const NFTA_TABLE_NAME = 1

export interface NftTable {
  readonly family: IpFamily
  readonly name: string
}

/** The tables of both IP families; none when the kernel has no nf_tables. `netlink` is of NETLINK_NETFILTER. */
export async function listNftTables(
  netlink: NetlinkConnection,
  options: DumpOptions = {},
): Promise<readonly NftTable[]> {
  return noneWithoutNftables(netlink.dump(requestOf(encodeListTables), decodeTable, options))
}

/** What is listed; nothing where nfnetlink has no such subsystem. */
export async function noneWithoutNftables<T>(listed: Promise<readonly T[]>): Promise<readonly T[]> {
  try {
    return await listed
  } catch (error) {
    if (error instanceof KernelError && error.code === 'EINVAL') return []
    throw error
  }
}

/** Deletes a table, in a transaction of its own; one that is gone already counts as deleted. */
export async function deleteNftTable(
  netlink: NetlinkConnection,
  table: NftTable,
  options: CallOptions = {},
): Promise<void> {
  const outcomes = await netlink.transact(
    requestOf((batch) => encodeDeleteTable(batch, table)),
    options,
  )
  const refusal = outcomes.find((outcome) => outcome !== undefined)
  if (refusal !== undefined && refusal.code !== 'ENOENT') throw refusal
}

/** NFT_MSG_GETTABLE of all families. */
export function encodeListTables(batch: MessageBatch): void {
  beginNetfilter(batch, NFNL_SUBSYS.NFTABLES, NFT_MSG_GETTABLE, NLM_F_DUMP, 'NFT_MSG_GETTABLE')
  batch.end()
}

/** A table of a dump; undefined when its family is neither ip nor ip6. */
export function decodeTable(message: ReceivedMessage): NftTable | undefined {
  const family = netfilterFamily(message)
  const attributes = netfilterAttributes(message, NFNL_SUBSYS.NFTABLES, NFT_MSG_NEWTABLE, 'NFT_MSG_NEWTABLE')
  if (family === undefined) return undefined
  while (attributes.next()) if (attributes.type === NFTA_TABLE_NAME) return { family, name: attributes.string() }
  return undefined
}

/** A whole transaction: NFT_MSG_DELTABLE deletes chains, sets and maps of the table with it. */
export function encodeDeleteTable(batch: MessageBatch, { family, name }: NftTable): void {
  encodeBatchBegin(batch, NFNL_SUBSYS.NFTABLES)
  beginNetfilter(batch, NFNL_SUBSYS.NFTABLES, NFT_MSG_DELTABLE, 0, 'NFT_MSG_DELTABLE', family)
  batch.string(NFTA_TABLE_NAME, name)
  batch.end()
  encodeBatchEnd(batch, NFNL_SUBSYS.NFTABLES)
}
