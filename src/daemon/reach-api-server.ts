/**
 * Before the first list: whether this node reaches itself at the address of the API server, because
 * a proxy before this one made it a virtual IP. Then the lists, which would say that the address is
 * not wanted, would never come.
 * @impure
 */
import { openRtnetlink } from '../../native/open.ts'
import { RTN_LOCAL } from '../netlink/route-codec.ts'
import type { AddressRemoval } from '../modes/leftovers/api-server-addresses.ts'
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import { deadlineSignal } from '../node/deadline.ts'
import { isLoopback } from '../values/address.ts'
import { CodedError } from '../values/errors.ts'
import type { Log } from '../values/log.ts'

/** A start waits no longer for the kernel. */
const ANSWER_MS = 10_000

/** The questions and the removal; tests have their own. */
export interface KernelWays {
  /** Whether a packet to the address stays on this node. Rejects when the kernel refuses an answer. */
  isLocal(address: string, signal: AbortSignal): Promise<boolean>
  /** Rejects when the kernel refuses an answer. */
  remove(address: string, ports: ReadonlySet<number>, signal: AbortSignal): Promise<AddressRemoval>
  close(): void
}

/**
 * @param apiServer addresses at which this node reaches the API server, with their ports. Never
 * rejects: a start goes on, and retries its lists.
 */
export async function reachApiServer(
  apiServer: ReadonlyMap<string, ReadonlySet<number>>,
  log: Pick<Log, 'warn'>,
  open: () => KernelWays = openWays,
): Promise<void> {
  if (apiServer.size === 0) return
  const signal = deadlineSignal(ANSWER_MS, 'asking the kernel for the way to the API server')
  let ways: KernelWays | undefined
  for (const [address, ports] of apiServer)
    try {
      ways ??= open()
      // Loopback always leads to this node.
      if (isLoopback(address) || !(await ways.isLocal(address, signal))) continue
      const removal = await ways.remove(address, ports, signal)
      if (removal === 'removed')
        log.warn('An address of the API server was a virtual IP of this node, and is removed', { address })
      else if (removal !== 'no-virtual-ip')
        log.warn('Cannot remove an address of the API server from the virtual IPs of this node', {
          address,
          error: removal,
        })
    } catch (error) {
      log.warn('Cannot find out whether an address of the API server is a virtual IP of this node', { address, error })
    }
  ways?.close()
}

function openWays(): KernelWays {
  const rtnetlink = openRtnetlink()
  return {
    isLocal: (address, signal) => isLocal(rtnetlink, address, signal),
    async remove(address, ports, signal) {
      const { removeApiServerAddress } = await import('../modes/leftovers/api-server-addresses.ts')
      return removeApiServerAddress(rtnetlink, address, ports, signal)
    },
    close: () => rtnetlink.close(),
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
