/**
 * Connections and subscriptions on real sockets; only composition calls these functions. Requests
 * and announcements never share a socket: an overrun of one must not lose the other's replies.
 */
import type { AnnouncementReader, LossListener } from '../src/netlink/announcements.ts'
import { NetlinkConnection } from '../src/netlink/connection.ts'
import { NETLINK_NETFILTER, NETLINK_ROUTE } from '../src/netlink/constants.ts'
import { KernelError } from '../src/netlink/errors.ts'
import { RtnetlinkConnection } from '../src/netlink/rtnetlink.ts'
import { type RtnetlinkEvent, rtnetlinkEvents } from '../src/netlink/rtnetlink-events.ts'
import type { Transport } from '../src/netlink/transport.ts'
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

/**
 * A connection to the parts of netfilter (nfnetlink). Throws KernelError EPROTONOSUPPORT when the
 * kernel has no nfnetlink.
 */
export function openNetfilter(options: { readonly timeoutMs?: number } = {}): NetlinkConnection {
  return openNetlinkConnection(NETLINK_NETFILTER, options)
}

/** `openNetfilter`, or undefined when the kernel has no nfnetlink. */
export function findNetfilter(): NetlinkConnection | undefined {
  try {
    return openNetfilter()
  } catch (error) {
    if (error instanceof KernelError && error.code === 'EPROTONOSUPPORT') return undefined
    throw error
  }
}

/** Asks netfilter once; `none` is the answer where the kernel has no nfnetlink. */
export async function askNetfilter<T>(none: T, ask: (netlink: NetlinkConnection) => Promise<T>): Promise<T> {
  const netlink = findNetfilter()
  if (netlink === undefined) return none
  try {
    return await ask(netlink)
  } finally {
    netlink.close()
  }
}

/** A connection for links, addresses and routes. */
export function openRtnetlink(): RtnetlinkConnection {
  return new RtnetlinkConnection(openNetlinkConnection(NETLINK_ROUTE, { strictChecking: true }))
}

/** The announcements to receive. */
export interface RtnetlinkSubscription {
  /** RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR … */
  readonly groups: readonly number[]
  /**
   * Port ids of sockets whose changes are not reported. The kernel names the sender for links and
   * IPv4 addresses, but not (port id 0) for IPv6 addresses and for the routes that it adds with an
   * address.
   */
  readonly ignorePortIds?: readonly number[]
  /** Receive queue of the kernel in bytes, default 8 MiB. */
  readonly receiveBufferBytes?: number
}

/** Starts listening to changes until `close`. It keeps the process alive. */
export function openRtnetlinkEvents(
  subscription: RtnetlinkSubscription,
  listener: (event: RtnetlinkEvent) => void,
  losses: LossListener,
): AnnouncementReader {
  const events = rtnetlinkEvents(NetlinkSocket.open(NETLINK_ROUTE, subscription), listener, losses)
  events.start()
  return events
}

/**
 * A socket for announcements of a netlink family (NETLINK_NETFILTER with NFNLGRP_NFTABLES …). The
 * caller starts to read it and closes it.
 */
export function openNetlinkGroups(protocol: number, groups: readonly number[]): Transport {
  return NetlinkSocket.open(protocol, { groups })
}
