/** Opens ipset, which the kernel may lack. */
import { findNetfilter } from '../../native/open.ts'
import { IpsetConnection } from '../ipset/connection.ts'
import { ipsetError } from '../ipset/errors.ts'

/** A connection to ipset. Rejects with `ipset-missing`, which names the module. */
export async function openIpset(signal: AbortSignal): Promise<IpsetConnection> {
  const netlink = findNetfilter()
  if (netlink === undefined) {
    const message = 'the kernel has no nfnetlink and so no ipset: load the module "ip_set" (modprobe ip_set)'
    throw ipsetError('ipset-missing', message)
  }
  return IpsetConnection.open(netlink, { signal })
}
