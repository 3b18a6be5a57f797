/**
 * Lists the base chains of nf_tables at the hooks of IP packets, of every table: a drop of any of
 * them is final, whatever the rules of iptables accept, and one of type nat may translate a packet
 * before those of iptables do. Read-only.
 * @impure
 */
import { requestOf } from '../netlink/batch.ts'
import type { DumpOptions, NetlinkConnection } from '../netlink/connection.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { decodeListedChain, encodeListChains, type HOOKS, NF_DROP } from './chain-message.ts'
import type { NftFamily } from './rule-message.ts'
import { noneWithoutNftables } from './tables.ts'
import { PRIVATE_TABLE } from './types.ts'

/** NFPROTO_* of linux/netfilter.h: the families through which packets of IP pass. */
export const FAMILIES: Readonly<Record<number, NftFamily>> = { 1: 'inet', 2: 'ip', 10: 'ip6' }

export interface NftBaseChain {
  readonly family: NftFamily
  readonly table: string
  readonly chain: string
  readonly hook: (typeof HOOKS)[number]
  /** The kernel calls the chains of a hook from the lowest one on, and of two equal ones first that which was made last. */
  readonly priority: number
  /** `filter`, `nat`, `route` */
  readonly type: string
  readonly policy: 'accept' | 'drop'
}

/** None when the kernel has no nf_tables. `netlink` is of NETLINK_NETFILTER. */
export async function listNftBaseChains(
  netlink: NetlinkConnection,
  options: DumpOptions = {},
): Promise<readonly NftBaseChain[]> {
  return noneWithoutNftables(
    netlink.dump(
      requestOf((batch) => encodeListChains(batch)),
      decodeBaseChain,
      options,
    ),
  )
}

/** A base chain of a dump; undefined for any other chain, hook or family. */
export function decodeBaseChain(message: ReceivedMessage): NftBaseChain | undefined {
  const { familyNumber, table, name: chain, hook, type, policy } = decodeListedChain(message)
  const family = FAMILIES[familyNumber]
  if (family === undefined || hook?.name === undefined) return undefined
  const { name, priority } = hook
  return { family, table, chain, hook: name, priority, type, policy: policy === NF_DROP ? 'drop' : 'accept' }
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
