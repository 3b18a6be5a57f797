/**
 * What this kernel lacks for rules that iptables-nft writes. iptables-nft-save tells nothing of it: where nf_tables is there
 * but not for this family (Debian's user-mode-linux) it prints nothing and ends with success.
 * What could break: nothing may be made by asking; the kernel may load modules, as it would for iptables-nft itself.
 */
import type { CallOptions, NetlinkConnection } from '../netlink/connection.ts'
import { hasSubsystem } from '../netlink/nfnetlink.ts'
import type { IpFamily } from '../values/protocol.ts'
import { hasNftCompat } from './extensions.ts'
import { nftFamilies } from './nft-trial.ts'

/**
 * The first part that is missing, `nf_tables for IPv6`; undefined when rules of all these families can be written.
 * `netlink` is of NETLINK_NETFILTER. Rejects when the kernel cannot be asked (EPERM).
 */
export async function missingForNft(
  netlink: NetlinkConnection,
  families: readonly IpFamily[],
  options: CallOptions = {},
): Promise<string | undefined> {
  if (!(await hasSubsystem(netlink, 'nf_tables', options))) return 'nf_tables'
  const supported = await nftFamilies(netlink, families, options)
  for (const family of families) if (!supported.includes(family)) return `nf_tables for ${family}`
  return (await hasNftCompat(netlink, options)) ? undefined : 'nft_compat'
}
