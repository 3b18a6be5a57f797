/** Whether the kernel lacks a match of x_tables that rules need, asked as the back end of iptables would. */
import { askXtables } from '../../native/xtables-query.ts'
import type { NetlinkConnection } from '../netlink/connection.ts'
import { hasExtension, hasNftCompat } from '../nftables/support.ts'
import type { IpFamily } from '../values/protocol.ts'

/**
 * Asking loads the module where the kernel may. Unknown is not missing: while ip_tables is not
 * loaded, and without nft_compat, without which no rule can be written. Rejects when the kernel
 * refuses the question.
 * @param netlink undefined: the back end is legacy
 */
export async function lacksMatch(
  netlink: NetlinkConnection | undefined,
  name: string,
  family: IpFamily,
  signal: AbortSignal,
): Promise<boolean> {
  if (netlink === undefined) return askXtables('match', name, family) === 'missing'
  const isThere = await hasExtension(netlink, { kind: 'match', name }, family, { signal })
  return !isThere && (await hasNftCompat(netlink, { signal }))
}
