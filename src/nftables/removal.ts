/**
 * Removes rules and chains of nf_tables over nfnetlink: whole chains with the rules that lead to
 * them, for tables whose programs are not installed or not wanted.
 * @impure
 */
import { MAX_BATCH_MESSAGES, type MessageBatch, requestOf } from '../netlink/batch.ts'
import type { CallOptions, NetlinkConnection } from '../netlink/connection.ts'
import { encodeBatchBegin, encodeBatchEnd, NFNL_SUBSYS } from '../netlink/nfnetlink-codec.ts'
import type { IpFamily } from '../values/protocol.ts'
import { NFTA_CHAIN_NAME } from './chain-message.ts'
import type { NftPlace } from './rule.ts'
import { NFTA_RULE_CHAIN, NFTA_RULE_HANDLE } from './rule-message.ts'
import { beginNft } from './wire.ts'

/** One message of a transaction. Without `handle` it is about all rules of the chain. */
type Removal =
  | { readonly kind: 'rules'; readonly table: string; readonly chain: string; readonly handle?: bigint }
  | { readonly kind: 'chain'; readonly table: string; readonly chain: string }

export interface ChainRemoval {
  readonly family: IpFamily
  readonly table: string
  /** Rules that lead to the chains. */
  readonly jumps: readonly NftPlace[]
  /** Chains to empty. */
  readonly emptied: readonly string[]
  /** Those of them to delete: no other rule leads to them. */
  readonly deleted: readonly string[]
}

/**
 * Removes the jumps in one transaction, so that packets pass either all of the chains or none; then
 * the chains, in as many as it takes.
 */
export async function removeNftChains(
  netlink: NetlinkConnection,
  { family, table, jumps, emptied, deleted }: ChainRemoval,
  options: CallOptions = {},
): Promise<void> {
  const work: readonly Removal[][] = [
    jumps.map(({ chain, handle }) => ({ kind: 'rules', table, chain, handle })),
    emptied.map((chain) => ({ kind: 'rules', table, chain })),
    deleted.map((chain) => ({ kind: 'chain', table, chain })),
  ]
  for (const removals of work)
    for (let first = 0; first < removals.length; first += PORTION)
      await remove(netlink, family, removals.slice(first, first + PORTION), options)
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
  for (const { table, chain, handle } of rules)
    await remove(netlink, family, [{ kind: 'rules', table, chain, handle }], options)
}

/** A transaction has a message before and after them. */
const PORTION = MAX_BATCH_MESSAGES - 2

/**
 * Rejects with the first refusal: then nothing of the transaction has happened. What is gone already
 * refuses a transaction too, so the others are removed one by one then.
 */
async function remove(
  netlink: NetlinkConnection,
  family: IpFamily,
  removals: readonly Removal[],
  options: CallOptions,
): Promise<void> {
  const outcomes = await netlink.transact(
    requestOf((batch) => encodeRemovals(batch, family, removals)),
    options,
  )
  const refusals = outcomes.filter((outcome) => outcome !== undefined)
  const refusal = refusals.find(({ code }) => code !== 'ENOENT')
  if (refusal !== undefined) throw refusal
  if (refusals.length === 0 || removals.length === 1) return
  for (const one of removals) await remove(netlink, family, [one], options)
}

/** A whole transaction. */
export function encodeRemovals(batch: MessageBatch, family: IpFamily, removals: readonly Removal[]): void {
  encodeBatchBegin(batch, NFNL_SUBSYS.NFTABLES)
  for (const removal of removals) {
    if (removal.kind === 'chain') {
      beginNft(batch, 'DELCHAIN', 0, family, removal.table)
      batch.string(NFTA_CHAIN_NAME, removal.chain)
    } else {
      beginNft(batch, 'DELRULE', 0, family, removal.table)
      batch.string(NFTA_RULE_CHAIN, removal.chain)
      if (removal.handle !== undefined) batch.binary(NFTA_RULE_HANDLE, bigEndian(removal.handle))
    }
    batch.end()
  }
  encodeBatchEnd(batch, NFNL_SUBSYS.NFTABLES)
}

function bigEndian(value: bigint): Uint8Array {
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setBigUint64(0, value)
  return bytes
}
