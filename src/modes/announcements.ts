/**
 * Announcements of the kernel, read until closed: changes of links and addresses, changes of rules,
 * and the loss of a module. They say what to read again, never what it is. A socket that fails is
 * opened again; what was announced meanwhile is lost, so after each opening everything may have
 * changed.
 */
import { openNetlinkGroups, openRtnetlinkEvents } from '../../native/open.ts'
import type { ChainLayout } from '../iptables/layout.ts'
import { concernsUs, type WatchesAdditions } from '../iptables/rule-changes.ts'
import { NFNLGRP_NFTABLES, nftEvents } from '../nftables/events.ts'
import type { LossListener } from '../netlink/announcements.ts'
import {
  GENLGRP_CTRL,
  NETLINK_GENERIC,
  NETLINK_NETFILTER,
  RTNLGRP_IPV4_IFADDR,
  RTNLGRP_IPV4_ROUTE,
  RTNLGRP_IPV6_IFADDR,
  RTNLGRP_IPV6_ROUTE,
  RTNLGRP_LINK,
} from '../netlink/constants.ts'
import { familyEvents } from '../netlink/family-events.ts'
import type { RtnetlinkEvent } from '../netlink/rtnetlink-events.ts'
import type { HostIptables } from '../node/iptables-programs.ts'
import { Pacer } from '../sync/pacer.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'

export interface Subscription {
  /** Opens a socket and reads it. May throw. */
  readonly open: (losses: LossListener) => { close(): void }
  /** Announcements may have been lost: everything that they are about may have changed. */
  readonly onLost: () => void
  /** Announcements were lost, or the socket failed, or could not be opened again; opening is retried until it works. */
  readonly onError: (error: unknown) => void
}

/** Wait from a failure to the next attempt to open a socket. */
const REOPEN_MS = 1000

/** Never throws: without a socket audits find what it would have announced, and opening is tried again. */
export function keepListening({ open, onLost, onError }: Subscription): { close(): void } {
  let timer: NodeJS.Timeout | undefined
  let socket: { close(): void } | undefined
  const losses: LossListener = {
    onOverrun(cause) {
      onError(cause)
      onLost()
    },
    onFailure(cause) {
      timer = setTimeout(reopen, REOPEN_MS)
      onError(cause)
      onLost()
    },
  }
  const reopen = (): void => {
    try {
      socket = open(losses)
    } catch (error) {
      timer = setTimeout(reopen, REOPEN_MS)
      return onError(error)
    }
    onLost()
  }
  try {
    socket = open(losses)
  } catch (error) {
    timer = setTimeout(reopen, REOPEN_MS)
    onError(error)
  }
  return {
    close() {
      clearTimeout(timer)
      socket?.close()
    },
  }
}

export type LinkEvent = Extract<RtnetlinkEvent, { readonly kind: 'link' }>
export type AddressEvent = Extract<RtnetlinkEvent, { readonly kind: 'address' }>

export type RouteEvent = Extract<RtnetlinkEvent, { readonly kind: 'route' }>

interface RtnetlinkWatchOptions {
  /** Port ids of sockets whose own changes are not announced. */
  readonly ignorePortIds?: readonly number[]
  readonly onLost: Subscription['onLost']
  readonly onError: Subscription['onError']
}

export interface LinkWatchOptions extends RtnetlinkWatchOptions {
  readonly onLink: (event: LinkEvent) => void
  readonly onAddress: (event: AddressEvent) => void
}

export interface RouteWatchOptions extends RtnetlinkWatchOptions {
  readonly onRoute: (event: RouteEvent) => void
}

/** Reads announcements of links and addresses until closed. */
export function watchLinks({ onLink, onAddress, ...options }: LinkWatchOptions): { close(): void } {
  return watchRtnetlink([RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR], options, (event) => {
    if (event.kind === 'link') onLink(event)
    else if (event.kind === 'address') onAddress(event)
  })
}

/** Reads announcements of routes until closed. */
export function watchRoutes({ onRoute, ...options }: RouteWatchOptions): { close(): void } {
  return watchRtnetlink([RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE], options, (event) => {
    if (event.kind === 'route') onRoute(event)
  })
}

function watchRtnetlink(
  groups: readonly number[],
  { ignorePortIds = [], onLost, onError }: RtnetlinkWatchOptions,
  onChange: (event: RtnetlinkEvent) => void,
): { close(): void } {
  return keepListening({
    open: (losses) => openRtnetlinkEvents({ groups, ignorePortIds }, onChange, losses),
    onLost,
    onError,
  })
}

export interface FamilyWatchOptions {
  /** The name of a family of generic netlink. */
  readonly family: string
  /** It was removed, or that may have been announced and was lost. */
  readonly onRemoved: () => void
  readonly onError: Subscription['onError']
}

/** Reads announcements that a family of generic netlink was removed, until closed. */
export function watchFamily({ family, onRemoved, onError }: FamilyWatchOptions): { close(): void } {
  return keepListening({
    open: (losses) => {
      const removed = (name: string): void => {
        if (name === family) onRemoved()
      }
      const events = familyEvents(openNetlinkGroups(NETLINK_GENERIC, [GENLGRP_CTRL]), removed, losses)
      events.start()
      return events
    },
    onLost: onRemoved,
    onError,
  })
}

export interface RuleWatchOptions {
  readonly iptables: HostIptables
  /** Of the mode. */
  readonly layout: ChainLayout
  /**
   * A change is reported after this time without an announcement, in milliseconds, but after
   * SETTLE_LONGEST_MS at the latest: a program that removes all rules does it by many commands, and
   * a restore in between fails. Default 0.
   */
  readonly settleMs?: number
  /** The netlink socket of this port id, which is not ours, changed rules of ours. */
  readonly onForeignWrite: (portId: number) => void
  /** Chains of others where an added rule may take packets before ours. Default: none. */
  readonly watches?: WatchesAdditions
  /** Another program may have changed the rules of this family. */
  readonly doubtRules: (family: IpFamily) => void
  readonly onError: Subscription['onError']
}

const SETTLE_LONGEST_MS = 2000

/** Reads announcements of rules until closed. Legacy iptables announces nothing; there the audits read the rules. */
export function watchRules(options: RuleWatchOptions): { close(): void } {
  const { iptables, layout, settleMs = 0, onForeignWrite, doubtRules, onError } = options
  if (iptables.choice.mode === 'legacy') return { close: () => undefined }
  const now = (): number => performance.now()
  const reads = IP_FAMILIES.map((family) => {
    const run = async (): Promise<undefined> => void doubtRules(family)
    return { family, pacer: new Pacer({ minPeriodMs: () => READ_PERIOD_MS, now, run }) }
  })
  const report = (...families: readonly IpFamily[]): void => {
    for (const { family, pacer } of reads) if (families.includes(family)) pacer.request()
  }
  const unsettled = new Set<IpFamily>()
  let settleTimer: NodeJS.Timeout | undefined
  let unsettledSinceMs = 0
  const settle = (family: IpFamily): void => {
    if (settleMs === 0) return report(family)
    const nowMs = performance.now()
    if (unsettled.size === 0) unsettledSinceMs = nowMs
    unsettled.add(family)
    clearTimeout(settleTimer)
    const waitMs = Math.min(settleMs, unsettledSinceMs + SETTLE_LONGEST_MS - nowMs)
    settleTimer = setTimeout(
      () => {
        const families = [...unsettled]
        unsettled.clear()
        report(...families)
      },
      Math.max(0, waitMs),
    )
  }
  const open = (losses: LossListener): { close(): void } => {
    const opened = nftEvents(
      openNetlinkGroups(NETLINK_NETFILTER, [NFNLGRP_NFTABLES]),
      (change) => concernsUs(change, layout, options.watches) && !iptables.isOwn(change.portId),
      ({ family, portId }) => {
        onForeignWrite(portId)
        settle(family)
      },
      losses,
    )
    opened.start()
    return opened
  }
  const events = keepListening({ open, onLost: () => report(...IP_FAMILIES), onError })
  return {
    close() {
      clearTimeout(settleTimer)
      for (const { pacer } of reads) void pacer.close()
      events.close()
    },
  }
}

/** Shortest time between two readings of the rules of one family, in milliseconds: each is a process. */
const READ_PERIOD_MS = 1000
