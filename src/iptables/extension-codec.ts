/**
 * The question of iptables-nft whether the kernel has a match or target of x_tables (linux/netfilter/nf_tables_compat.h).
 * It changes nothing but that the kernel loads the module it is asked for, if it can.
 * What could break: a name is at most 31 bytes; to a longer one the kernel answers EINVAL, as if it had no nft_compat.
 */
import type { MessageBatch } from '../netlink/batch.ts'
import { beginNetfilter, NFNL_SUBSYS } from '../netlink/nfnetlink-codec.ts'
import type { IpFamily } from '../values/protocol.ts'

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
 * NFNL_MSG_COMPAT_GET. ENOENT: there is no such extension; EPROTONOSUPPORT: there is, but not in revision 0; EINVAL: the
 * kernel has no nft_compat.
 */
export function encodeGetExtension(batch: MessageBatch, { kind, name }: Extension, family: IpFamily): void {
  beginNetfilter(batch, NFNL_SUBSYS.NFT_COMPAT, NFNL_MSG_COMPAT_GET, 0, 'NFNL_MSG_COMPAT_GET', family)
  batch.string(NFTA_COMPAT_NAME, name)
  batch.u32be(NFTA_COMPAT_REV, 0)
  batch.u32be(NFTA_COMPAT_TYPE, TYPE_NUMBER[kind])
  batch.end()
}
