/**
 * What the nft back end of iptables finds in this kernel beside nf_tables itself.
 * What could break: EINVAL is the answer for a whole part of the kernel that is missing, ENOENT for a single extension.
 */
import { MessageBatch } from '../netlink/batch.ts'
import type { CallOptions, NetlinkConnection } from '../netlink/connection.ts'
import { KernelError } from '../netlink/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import { encodeGetExtension, type Extension } from './extension-codec.ts'

/** Whether nf_tables can use matches and targets of x_tables (nft_compat). `netlink` is of NETLINK_NETFILTER. */
export async function hasNftCompat(netlink: NetlinkConnection, options: CallOptions = {}): Promise<boolean> {
  // Any extension will do to see whether there is anybody to ask.
  return (await refusal(netlink, { kind: 'match', name: 'set' }, 'IPv4', options)) !== 'EINVAL'
}

/** Whether the kernel has that match or target; without nft_compat it has none. */
export async function hasExtension(
  netlink: NetlinkConnection,
  extension: Extension,
  family: IpFamily,
  options: CallOptions = {},
): Promise<boolean> {
  return (await refusal(netlink, extension, family, options)) === undefined
}

/** Why the kernel does not answer; undefined when it does. That it has another revision is an answer. */
async function refusal(
  netlink: NetlinkConnection,
  extension: Extension,
  family: IpFamily,
  options: CallOptions,
): Promise<'EINVAL' | 'ENOENT' | undefined> {
  const request = new MessageBatch(128)
  encodeGetExtension(request, extension, family)
  try {
    await netlink.request(request, () => true, options)
    return undefined
  } catch (error) {
    if (!(error instanceof KernelError)) throw error
    if (error.code === 'EPROTONOSUPPORT') return undefined
    if (error.code === 'EINVAL' || error.code === 'ENOENT') return error.code
    throw error
  }
}
