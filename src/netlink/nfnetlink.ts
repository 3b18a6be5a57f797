/**
 * Whether a part of netfilter is there, found out by a question that it answers with one message and that changes nothing
 * (the kernel loads its module if it can).
 * What could break: nfnetlink answers EINVAL for a subsystem that nobody has registered, so the question itself must be
 * right beyond doubt.
 */
import { MessageBatch } from './batch.ts'
import type { CallOptions, NetlinkConnection } from './connection.ts'
import { KernelError } from './errors.ts'
import { beginNetfilter, NFNL_SUBSYS } from './nfnetlink-codec.ts'

/** For each subsystem a message that asks for a few numbers. */
const QUESTIONS = {
  nf_tables: { subsystem: NFNL_SUBSYS.NFTABLES, message: 16, operation: 'NFT_MSG_GETGEN' },
  ctnetlink: { subsystem: NFNL_SUBSYS.CTNETLINK, message: 5, operation: 'IPCTNL_MSG_CT_GET_STATS' },
} as const

/** `netlink` is of NETLINK_NETFILTER. Rejects with any other refusal of the kernel (EPERM). */
export async function hasSubsystem(
  netlink: NetlinkConnection,
  part: keyof typeof QUESTIONS,
  options: CallOptions = {},
): Promise<boolean> {
  const { subsystem, message, operation } = QUESTIONS[part]
  const request = new MessageBatch(64)
  beginNetfilter(request, subsystem, message, 0, operation)
  request.end()
  try {
    return await netlink.request(request, () => true, options)
  } catch (error) {
    if (error instanceof KernelError && error.code === 'EINVAL') return false
    throw error
  }
}
