/**
 * Parts of the kernel that speak netlink, found by requests: the number of a generic netlink
 * family, and whether a part of netfilter is there. The kernel loads the module if it can; nothing
 * else changes.
 * @impure
 */
import { MessageBatch } from './batch.ts'
import type { CallOptions, NetlinkConnection } from './connection.ts'
import { CTRL_ATTR_FAMILY_NAME, CTRL_CMD_GETFAMILY, GENL_ID_CTRL } from './constants.ts'
import { KernelError, netlinkError } from './errors.ts'
import { decodeFamilyId } from './generic-codec.ts'
import { beginNetfilter, NFNL_SUBSYS } from './nfnetlink-codec.ts'

/**
 * The number of a family (CTRL_CMD_GETFAMILY). The kernel loads the module when it can. Rejects
 * with `genl-family-missing`, which names the family, when there is none.
 */
export async function resolveFamily(
  connection: NetlinkConnection,
  name: string,
  options: CallOptions = {},
): Promise<number> {
  const request = new MessageBatch(128)
  request.beginGeneric(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1, 0, `CTRL_CMD_GETFAMILY ${name}`)
  request.string(CTRL_ATTR_FAMILY_NAME, name)
  request.end()
  try {
    return await connection.request(request, (message) => decodeFamilyId(message, name), options)
  } catch (error) {
    if (error instanceof KernelError && error.code === 'ENOENT')
      throw netlinkError(
        'genl-family-missing',
        `the kernel has no generic netlink family "${name}"; its module is not loaded or not built`,
        {
          cause: error,
        },
      )
    throw error
  }
}

/** For each subsystem a message that reads a few numbers. */
const QUESTIONS = {
  nf_tables: { subsystem: NFNL_SUBSYS.NFTABLES, message: 16, operation: 'NFT_MSG_GETGEN' },
  ctnetlink: { subsystem: NFNL_SUBSYS.CTNETLINK, message: 5, operation: 'IPCTNL_MSG_CT_GET_STATS' },
} as const

/**
 * Whether the kernel has a part of netfilter. nfnetlink answers EINVAL for a subsystem that is not
 * registered, so the request itself must be correct. `netlink` is of NETLINK_NETFILTER. Rejects
 * with any other refusal of the kernel (EPERM).
 */
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
