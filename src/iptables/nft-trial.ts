/**
 * Whether nf_tables can hold the rules of a family, tried out without making anything: a transaction that is never
 * completed is checked by the kernel and dropped, as `nft --check` does it.
 * What could break: no message of a trial may be NFNL_MSG_BATCH_END, or the trial would be real.
 */
import { MessageBatch } from '../netlink/batch.ts'
import type { CallOptions, NetlinkConnection } from '../netlink/connection.ts'
import { NLM_F_CREATE } from '../netlink/constants.ts'
import { beginNetfilter, encodeBatchBegin, NFNL_SUBSYS } from '../netlink/nfnetlink-codec.ts'
import type { IpFamily } from '../values/protocol.ts'

// linux/netfilter/nf_tables.h
const NFT_MSG_NEWTABLE = 0
const NFT_MSG_NEWCHAIN = 3
const NFTA_TABLE_NAME = 1
const NFTA_TABLE_FLAGS = 2
const NFTA_CHAIN_TABLE = 1
const NFTA_CHAIN_NAME = 3
const NFTA_CHAIN_HOOK = 4
const NFTA_CHAIN_TYPE = 7
const NFTA_HOOK_HOOKNUM = 1
const NFTA_HOOK_PRIORITY = 2
/** Its chains see no packets. */
const NFT_TABLE_F_DORMANT = 1
/** NF_INET_PRE_ROUTING and NF_IP_PRI_NAT_DST of linux/netfilter.h and netfilter_ipv4.h */
const PRE_ROUTING = 0
const NAT_PRIORITY = -100

const TABLE = 'kube-ipvs-trial'

/**
 * `no-family`: the kernel's nf_tables was built without this family. `no-nat`: there are no chains of type nat
 * (nft_chain_nat). To be asked only where there is nf_tables at all; `netlink` is of NETLINK_NETFILTER.
 */
export async function tryNftFamily(
  netlink: NetlinkConnection,
  family: IpFamily,
  options: CallOptions = {},
): Promise<'works' | 'no-family' | 'no-nat'> {
  const batch = new MessageBatch(256)
  encodeTrial(batch, family)
  const [, table, chain] = await netlink.transact(batch, options)
  if (table?.code === 'EOPNOTSUPP') return 'no-family'
  if (table !== undefined) throw table
  if (chain?.code === 'ENOENT' || chain?.code === 'EOPNOTSUPP') return 'no-nat'
  if (chain !== undefined) throw chain
  return 'works'
}

/**
 * The families that the kernel's nf_tables was built with, of these. One transaction that is refused at once: the kernel
 * drops one with something in it only after all its processors have been through a pause (20 to 80 ms), and nobody else
 * runs meanwhile.
 */
export async function nftFamilies(
  netlink: NetlinkConnection,
  families: readonly IpFamily[],
  options: CallOptions = {},
): Promise<readonly IpFamily[]> {
  const batch = new MessageBatch(128)
  encodeBatchBegin(batch, NFNL_SUBSYS.NFTABLES)
  // A table without a name: EINVAL, but only where the family is known.
  for (const family of families) {
    beginNft(batch, NFT_MSG_NEWTABLE, 'NFT_MSG_NEWTABLE', family)
    batch.end()
  }
  const [, ...outcomes] = await netlink.transact(batch, options)
  return families.filter((_, index) => {
    const outcome = outcomes[index]
    if (outcome !== undefined && outcome.code !== 'EINVAL' && outcome.code !== 'EOPNOTSUPP') throw outcome
    return outcome?.code !== 'EOPNOTSUPP'
  })
}

/** A table that sees no packets and a nat chain in it, without an end. */
export function encodeTrial(batch: MessageBatch, family: IpFamily): void {
  encodeBatchBegin(batch, NFNL_SUBSYS.NFTABLES)
  beginNft(batch, NFT_MSG_NEWTABLE, 'NFT_MSG_NEWTABLE', family)
  batch.string(NFTA_TABLE_NAME, TABLE)
  batch.u32be(NFTA_TABLE_FLAGS, NFT_TABLE_F_DORMANT)
  batch.end()

  beginNft(batch, NFT_MSG_NEWCHAIN, 'NFT_MSG_NEWCHAIN', family)
  batch.string(NFTA_CHAIN_TABLE, TABLE)
  batch.string(NFTA_CHAIN_NAME, 'nat')
  const hook = batch.nest(NFTA_CHAIN_HOOK)
  batch.u32be(NFTA_HOOK_HOOKNUM, PRE_ROUTING)
  batch.u32be(NFTA_HOOK_PRIORITY, NAT_PRIORITY)
  batch.endNest(hook)
  batch.string(NFTA_CHAIN_TYPE, 'nat')
  batch.end()
}

function beginNft(batch: MessageBatch, message: number, operation: string, family: IpFamily): void {
  beginNetfilter(batch, NFNL_SUBSYS.NFTABLES, message, NLM_F_CREATE, operation, family)
}
