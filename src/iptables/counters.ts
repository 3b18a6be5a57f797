/**
 * Counters of the kernel that rules add to (nfacct): made where they are missing, never reset or deleted.
 * What could break: a rule that names a counter which is not there is refused, and with it all rules of its table.
 */
import { MessageBatch } from '../netlink/batch.ts'
import type { CallOptions, NetlinkConnection } from '../netlink/connection.ts'
import { NLM_F_CREATE, NLM_F_EXCL } from '../netlink/constants.ts'

// linux/netfilter/nfnetlink.h and nfnetlink_acct.h
const NFNL_SUBSYS_ACCT = 7
const NFNL_MSG_ACCT_NEW = 0
const NFACCT_NAME = 1
const NFGENMSG_BYTES = 4

/** Makes a counter unless it is there. Resolves to whether it is there now. `netlink` is of NETLINK_NETFILTER. */
export async function ensureCounter(
  netlink: NetlinkConnection,
  name: string,
  options: CallOptions = {},
): Promise<boolean> {
  const batch = new MessageBatch(64)
  const type = (NFNL_SUBSYS_ACCT << 8) | NFNL_MSG_ACCT_NEW
  batch.begin(type, NLM_F_CREATE | NLM_F_EXCL, 'NFNL_MSG_ACCT_NEW').header(NFGENMSG_BYTES)
  batch.string(NFACCT_NAME, name)
  batch.end()
  const [error] = await netlink.transact(batch, options)
  return error === undefined || error.code === 'EEXIST'
}
