/**
 * What this kernel lacks for rules that iptables-nft writes. iptables-nft-save tells nothing of it: where nf_tables is there
 * but not for this family (Debian's user-mode-linux) it prints nothing and ends with success.
 * What could break: nothing may be made by asking; the kernel may load modules, as it would for iptables-nft itself.
 */
import type { CallOptions, NetlinkConnection } from '../netlink/connection.ts'
import { hasSubsystem } from '../netlink/nfnetlink.ts'
import type { IpFamily, UnusableFamilies } from '../values/protocol.ts'
import { hasNftCompat } from './extensions.ts'
import { nftFamilies } from './nft-trial.ts'

/** `netlink` is of NETLINK_NETFILTER. Rejects when the kernel cannot be asked (EPERM). */
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

/** The same in every family. */
export function everywhere(families: readonly IpFamily[], reason: string): UnusableFamilies {
  return Object.fromEntries(families.map((family) => [family, reason]))
}
