/**
 * Before the first list: whether this node reaches itself at the address of the API server, because
 * a proxy before this one made it a virtual IP. Then the lists, which would say that the address is
 * not wanted, would never come.
 * @impure
 */
import { openRtnetlink } from '../../native/open.ts'
import { RTN_LOCAL } from '../netlink/route-codec.ts'
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import { deadlineSignal } from '../node/deadline.ts'
import { isLoopback } from '../values/address.ts'
import { CodedError } from '../values/errors.ts'
import type { Log } from '../values/log.ts'

/** A start waits no longer for the kernel. */
const ANSWER_MS = 10_000

/**
 * @param apiServer addresses at which this node reaches the API server, with their ports. Never
 * rejects: a start goes on, and retries its lists.
 */
export async function reachApiServer(
  apiServer: ReadonlyMap<string, ReadonlySet<number>>,
  log: Pick<Log, 'warn'>,
): Promise<void> {
  if (apiServer.size === 0) return
  const signal = deadlineSignal(ANSWER_MS, 'asking the kernel for the way to the API server')
  let rtnetlink: RtnetlinkConnection | undefined
  try {
    rtnetlink = openRtnetlink()
    for (const [address, ports] of apiServer) {
      // Loopback always leads to this node.
      if (isLoopback(address) || !(await isLocal(rtnetlink, address, signal))) continue
      const { removeApiServerAddress } = await import('../modes/leftovers/api-server-addresses.ts')
      if (await removeApiServerAddress(rtnetlink, address, ports, signal))
        log.warn('An address of the API server was a virtual IP of this node, and is removed', { address })
    }
  } catch (error) {
    log.warn('Cannot find out whether an address of the API server is a virtual IP of this node', { error })
  } finally {
    rtnetlink?.close()
  }
}

async function isLocal(rtnetlink: RtnetlinkConnection, address: string, signal: AbortSignal): Promise<boolean> {
  try {
    return (await rtnetlink.lookUpRoute({ destination: address }, { signal })).type === RTN_LOCAL
  } catch (error) {
    // No route leads there, so the address is not local.
    if (error instanceof CodedError && !signal.aborted) return false
    throw error
  }
}
