/**
 * The names of the kernel's nfacct counters, which no installed program lists.
 * What could break: it asks in the network namespace of the calling thread, as the rest of a state is taken.
 */
import { openNetlinkConnection } from '../../native/open.ts'
import { AttributeCursor } from '../../src/netlink/attributes.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import { NETLINK_NETFILTER, NLM_F_DUMP } from '../../src/netlink/constants.ts'

// linux/netfilter/nfnetlink.h and nfnetlink_acct.h
const NFNL_SUBSYS_ACCT = 7
const NFNL_MSG_ACCT_GET = 1
const NFACCT_NAME = 1
const NFGENMSG_BYTES = 4

/** One name a line, sorted. */
export async function counterNames(): Promise<string> {
  const netlink = openNetlinkConnection(NETLINK_NETFILTER)
  try {
    const request = new MessageBatch(64)
    request.begin((NFNL_SUBSYS_ACCT << 8) | NFNL_MSG_ACCT_GET, NLM_F_DUMP, 'NFNL_MSG_ACCT_GET').header(NFGENMSG_BYTES)
    request.end()
    const names = await netlink.dump(request, ({ bytes, start, end }) => {
      const attributes = new AttributeCursor(bytes, start + NFGENMSG_BYTES, end)
      while (attributes.next()) if (attributes.type === NFACCT_NAME) return attributes.string()
      return undefined
    })
    return names
      .sort()
      .map((name) => `${name}\n`)
      .join('')
  } finally {
    netlink.close()
  }
}
