/**
 * What the kernel has for rules that iptables-nft writes: nf_tables of a family, nft_compat, and
 * single matches and targets. iptables-nft-save does not report it: where the kernel has nf_tables
 * but not for this family (Debian's user-mode-linux), it prints nothing and exits with 0. The
 * kernel may load modules, as it would for iptables-nft itself; nothing else changes.
 * @impure
 */
import { MessageBatch } from '../netlink/batch.ts'
import type { CallOptions, NetlinkConnection } from '../netlink/connection.ts'
import { NLM_F_CREATE } from '../netlink/constants.ts'
import { KernelError } from '../netlink/errors.ts'
import { beginNetfilter, encodeBatchBegin, NFNL_SUBSYS } from '../netlink/nfnetlink-codec.ts'
import { hasSubsystem } from '../netlink/subsystems.ts'
import type { IpFamily, UnusableFamilies } from '../values/protocol.ts'
import {
  NFTA_CHAIN_HOOK,
  NFTA_CHAIN_NAME,
  NFTA_CHAIN_TYPE,
  NFTA_HOOK_HOOKNUM,
  NFTA_HOOK_PRIORITY,
} from './chain-message.ts'
import { beginNft } from './wire.ts'

/**
 * What the kernel lacks, by family. `netlink` is of NETLINK_NETFILTER. Rejects when the kernel
 * refuses the request (EPERM).
 */
export async function missingForNft(
  netlink: NetlinkConnection,
  families: readonly IpFamily[],
  options: CallOptions = {},
): Promise<UnusableFamilies> {
  if (!(await hasSubsystem(netlink, 'nf_tables', options))) return everywhere(families, NO_NF_TABLES)
  const supported = await nftFamilies(netlink, families, options)
  if (supported.length > 0 && !(await hasNftCompat(netlink, options)))
    return everywhere(families, 'the kernel has no nft_compat')
  return Object.fromEntries(
    families.filter((family) => !supported.includes(family)).map((family) => [family, `${NO_NF_TABLES} for ${family}`]),
  )
}

const NO_NF_TABLES = 'the kernel has no nf_tables'

/** The same reason for every family. */
export function everywhere(families: readonly IpFamily[], reason: string): UnusableFamilies {
  return Object.fromEntries(families.map((family) => [family, reason]))
}

// linux/netfilter/nf_tables.h
const NFTA_TABLE_NAME = 1
const NFTA_TABLE_FLAGS = 2
/** Its chains see no packets. */
const NFT_TABLE_F_DORMANT = 1
/** NF_INET_PRE_ROUTING and NF_IP_PRI_NAT_DST of linux/netfilter.h and netfilter_ipv4.h */
const PRE_ROUTING = 0
const NAT_PRIORITY = -100

const TABLE = 'kube-ipvs-trial'

/**
 * `no-family`: the kernel's nf_tables was built without this family. `no-nat`: there are no chains
 * of type nat (nft_chain_nat). Call it only where the kernel has nf_tables; `netlink` is of
 * NETLINK_NETFILTER.
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
 * Those of `families` that the kernel's nf_tables was built with. The transaction is refused at
 * once: before the kernel drops one with content, it waits for all processors (20 to 80 ms), and
 * this program waits with it.
 */
async function nftFamilies(
  netlink: NetlinkConnection,
  families: readonly IpFamily[],
  options: CallOptions = {},
): Promise<readonly IpFamily[]> {
  const batch = new MessageBatch(128)
  encodeBatchBegin(batch, NFNL_SUBSYS.NFTABLES)
  // A table without a name: EINVAL, but only where the family is known.
  for (const family of families) {
    beginNft(batch, 'NEWTABLE', NLM_F_CREATE, family)
    batch.end()
  }
  const [, ...outcomes] = await netlink.transact(batch, options)
  return families.filter((_, index) => {
    const outcome = outcomes[index]
    if (outcome !== undefined && outcome.code !== 'EINVAL' && outcome.code !== 'EOPNOTSUPP') throw outcome
    return outcome?.code !== 'EOPNOTSUPP'
  })
}

/**
 * A table that sees no packets, and a nat chain in it. The kernel checks the transaction and drops
 * it, as for `nft --check`, because no NFNL_MSG_BATCH_END follows. With that message the table
 * would stay.
 */
export function encodeTrial(batch: MessageBatch, family: IpFamily): void {
  encodeBatchBegin(batch, NFNL_SUBSYS.NFTABLES)
  beginNft(batch, 'NEWTABLE', NLM_F_CREATE, family)
  batch.string(NFTA_TABLE_NAME, TABLE)
  batch.u32be(NFTA_TABLE_FLAGS, NFT_TABLE_F_DORMANT)
  batch.end()

  beginNft(batch, 'NEWCHAIN', NLM_F_CREATE, family, TABLE)
  batch.string(NFTA_CHAIN_NAME, 'nat')
  const hook = batch.nest(NFTA_CHAIN_HOOK)
  batch.u32be(NFTA_HOOK_HOOKNUM, PRE_ROUTING)
  batch.u32be(NFTA_HOOK_PRIORITY, NAT_PRIORITY)
  batch.endNest(hook)
  batch.string(NFTA_CHAIN_TYPE, 'nat')
  batch.end()
}

/** Whether nf_tables can use matches and targets of x_tables (nft_compat). `netlink` is of NETLINK_NETFILTER. */
export async function hasNftCompat(netlink: NetlinkConnection, options: CallOptions = {}): Promise<boolean> {
  // Any extension shows whether nft_compat answers.
  return (await refusal(netlink, { kind: 'match', name: 'set' }, 'IPv4', options)) !== 'EINVAL'
}

/** Whether the kernel has that match or target; without nft_compat it has none. */
export async function hasExtension(
  netlink: NetlinkConnection,
  extension: Extension,
  family: IpFamily,
  options: CallOptions = {},
): Promise<boolean> {
  return (await refusal(netlink, extension, family, options)) === undefined
}

/**
 * The refusal: EINVAL for missing nft_compat, ENOENT for a missing extension, undefined for
 * neither. Another revision is no refusal.
 */
async function refusal(
  netlink: NetlinkConnection,
  extension: Extension,
  family: IpFamily,
  options: CallOptions,
): Promise<'EINVAL' | 'ENOENT' | undefined> {
  const request = new MessageBatch(128)
  encodeGetExtension(request, extension, family)
  try {
    await netlink.request(request, () => true, options)
    return undefined
  } catch (error) {
    if (!(error instanceof KernelError)) throw error
    if (error.code === 'EPROTONOSUPPORT') return undefined
    if (error.code === 'EINVAL' || error.code === 'ENOENT') return error.code
    throw error
  }
}

/** A match (`-m NAME`) or target (`-j NAME`) of x_tables. */
export interface Extension {
  readonly kind: 'match' | 'target'
  readonly name: string
}

// linux/netfilter/nf_tables_compat.h
const NFNL_MSG_COMPAT_GET = 0
const NFTA_COMPAT_NAME = 1
const NFTA_COMPAT_REV = 2
const NFTA_COMPAT_TYPE = 3
const TYPE_NUMBER: Readonly<Record<Extension['kind'], number>> = { match: 0, target: 1 }

/**
 * NFNL_MSG_COMPAT_GET. ENOENT: there is no such extension; EPROTONOSUPPORT: there is, but not in
 * revision 0; EINVAL: the kernel has no nft_compat, or the name is longer than 31 bytes.
 */
export function encodeGetExtension(batch: MessageBatch, { kind, name }: Extension, family: IpFamily): void {
  beginNetfilter(batch, NFNL_SUBSYS.NFT_COMPAT, NFNL_MSG_COMPAT_GET, 0, 'NFNL_MSG_COMPAT_GET', family)
  batch.string(NFTA_COMPAT_NAME, name)
  batch.u32be(NFTA_COMPAT_REV, 0)
  batch.u32be(NFTA_COMPAT_TYPE, TYPE_NUMBER[kind])
  batch.end()
}
