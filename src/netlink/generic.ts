/**
 * Generic netlink families: their numbers are given out by the kernel when a module is loaded.
 * What could break: a family's number changes when its module is loaded again; whoever gets ENOENT for a request has to
 * resolve it anew.
 */
import { MessageBatch } from './batch.ts'
import type { CallOptions, NetlinkConnection } from './connection.ts'
import { CTRL_ATTR_FAMILY_NAME, CTRL_CMD_GETFAMILY, GENL_ID_CTRL } from './constants.ts'
import { KernelError, netlinkError } from './errors.ts'
import { beginGeneric, decodeFamilyId } from './generic-codec.ts'

/**
 * The number of a family (CTRL_CMD_GETFAMILY). The kernel loads the module when it can. Rejects with
 * `genl-family-missing`, which names the family, when there is none.
 */
export async function resolveFamily(
  connection: NetlinkConnection,
  name: string,
  options: CallOptions = {},
): Promise<number> {
  const request = new MessageBatch(128)
  beginGeneric(request, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1, 0, `CTRL_CMD_GETFAMILY ${name}`)
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
