/**
 * Connections and subscriptions on real sockets: what composition calls, so that nothing else names a socket.
 * What could break: requests and notifications never share a socket; an overrun of one must not lose the other's replies.
 */
import { NetlinkConnection } from '../src/netlink/connection.ts'
import { NetlinkSocket, type NetlinkSocketOptions } from './netlink-socket.ts'

/** A connection for requests to a netlink family (NETLINK_ROUTE, NETLINK_GENERIC …). */
export function openNetlinkConnection(
  protocol: number,
  options: NetlinkSocketOptions & { readonly timeoutMs?: number } = {},
): NetlinkConnection {
  return new NetlinkConnection(
    NetlinkSocket.open(protocol, options),
    options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs },
  )
}
