/** Reads what is in the private tables of the nftables firewall, for what looks at it. */
import { askNetfilter } from '../../../native/open.ts'
import { PrivateTables } from '../../nftables/private-table.ts'
import type { NftItem } from '../../nftables/types.ts'
import { unlessMissing } from '../../values/errors.ts'
import type { IpFamily } from '../../values/protocol.ts'

/**
 * Calls `visit` for each item: the table of a family first, sets before their elements. There is
 * nothing where the kernel has no nf_tables.
 */
export async function visitPrivateItems(
  families: readonly IpFamily[],
  visit: (item: NftItem) => void,
  signal: AbortSignal,
): Promise<void> {
  await unlessMissing('nftables-missing', () =>
    askNetfilter(undefined, (netlink) => new PrivateTables(netlink, { families }).visit(visit, { signal })),
  )
}
