/**
 * Counters of the kernel that rules add to (nfacct). Missing counters are created; none is reset or
 * deleted. The kernel refuses a restore in which a rule names a missing counter.
 */
import { MessageBatch } from '../../netlink/batch.ts'
import type { CallOptions, NetlinkConnection } from '../../netlink/connection.ts'
import { NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL } from '../../netlink/constants.ts'
import { beginNetfilter, netfilterAttributes, NFNL_SUBSYS } from '../../netlink/nfnetlink-codec.ts'

// linux/netfilter/nfnetlink_acct.h
const NFNL_MSG_ACCT_NEW = 0
const NFNL_MSG_ACCT_GET = 1
const NFACCT_NAME = 1
const NFACCT_PKTS = 2

/**
 * Creates a counter unless it exists. Resolves to whether it exists now. `netlink` is a
 * NETLINK_NETFILTER connection.
 */
export async function ensureCounter(
  netlink: NetlinkConnection,
  name: string,
  options: CallOptions = {},
): Promise<boolean> {
  const batch = new MessageBatch(64)
  beginNetfilter(batch, NFNL_SUBSYS.ACCT, NFNL_MSG_ACCT_NEW, NLM_F_CREATE | NLM_F_EXCL, 'NFNL_MSG_ACCT_NEW')
  batch.string(NFACCT_NAME, name)
  batch.end()
  const [error] = await netlink.transact(batch, options)
  return error === undefined || error.code === 'EEXIST'
}

/** Packets counted by each counter, by its name. `netlink` is a NETLINK_NETFILTER connection. */
export async function readCounters(
  netlink: NetlinkConnection,
  options: CallOptions = {},
): Promise<ReadonlyMap<string, number>> {
  const request = new MessageBatch(64)
  beginNetfilter(request, NFNL_SUBSYS.ACCT, NFNL_MSG_ACCT_GET, NLM_F_DUMP, 'NFNL_MSG_ACCT_GET')
  request.end()
  const counters = await netlink.dump(
    request,
    (message) => {
      const attributes = netfilterAttributes(message, NFNL_SUBSYS.ACCT, NFNL_MSG_ACCT_NEW, 'NFNL_MSG_ACCT_NEW')
      let name = ''
      let packets = 0
      while (attributes.next())
        if (attributes.type === NFACCT_NAME) name = attributes.string()
        else if (attributes.type === NFACCT_PKTS) packets = Number(attributes.u64be())
      return [name, packets] as const
    },
    options,
  )
  return new Map(counters)
}
