/**
 * Announcements of changed rules.
 * What could break: nf_tables announces changes, legacy iptables does not; there they are looked for in every audit round.
 */
import { openNetlinkGroups } from '../../native/open.ts'
import type { ChainLayout } from '../iptables/layout.ts'
import { LookThrottle } from '../iptables/look-throttle.ts'
import { NFNLGRP_NFTABLES, nftEvents } from '../iptables/nft-events.ts'
import { NETLINK_NETFILTER } from '../netlink/constants.ts'
import type { HostIptables } from '../node/iptables-programs.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import { keepListening } from './announcements.ts'

export interface RuleWatchOptions {
  readonly iptables: HostIptables
  /** Of the mode. */
  readonly layout: ChainLayout
  /**
   * Look when nothing was announced for so long, in milliseconds, but after SETTLE_LONGEST_MS at the latest: who takes all
   * rules away does it by many commands, and a restore in between fails. Default 0.
   */
  readonly settleMs?: number
  /** Somebody may have changed the rules of this family. */
  readonly doubtRules: (family: IpFamily) => void
  readonly onError: (error: unknown) => void
}

const SETTLE_LONGEST_MS = 2000

/** Listens to changes of rules until closed; with legacy iptables there is nothing to hear. */
export function watchRules({ iptables, layout, settleMs = 0, doubtRules, onError }: RuleWatchOptions): {
  close(): void
} {
  if (iptables.choice.mode === 'legacy') return { close: () => undefined }
  const throttle = new LookThrottle()
  let lookTimer: NodeJS.Timeout | undefined
  const look = (...families: readonly IpFamily[]): void => {
    for (const family of families) throttle.request(family)
    clearTimeout(lookTimer)
    for (const family of throttle.takeDue(performance.now())) doubtRules(family)
    const nextMs = throttle.nextDueMs()
    if (nextMs !== undefined) lookTimer = setTimeout(look, Math.max(0, nextMs - performance.now()))
  }
  const unsettled = new Set<IpFamily>()
  let settleTimer: NodeJS.Timeout | undefined
  let unsettledSinceMs = 0
  const settle = (family: IpFamily): void => {
    if (settleMs === 0) return look(family)
    const nowMs = performance.now()
    if (unsettled.size === 0) unsettledSinceMs = nowMs
    unsettled.add(family)
    clearTimeout(settleTimer)
    const waitMs = Math.min(settleMs, unsettledSinceMs + SETTLE_LONGEST_MS - nowMs)
    settleTimer = setTimeout(
      () => {
        const families = [...unsettled]
        unsettled.clear()
        look(...families)
      },
      Math.max(0, waitMs),
    )
  }
  const open = (onFailed: (cause: unknown) => void): { close(): void } => {
    const transport = openNetlinkGroups(NETLINK_NETFILTER, [NFNLGRP_NFTABLES])
    const opened = nftEvents(
      transport,
      layout,
      (portId) => iptables.isOwn(portId),
      (event) => {
        switch (event.kind) {
          case 'changed':
            return settle(event.change.family)
          case 'overrun':
            return look(...IP_FAMILIES)
          case 'failed':
            return onFailed(event.cause)
        }
      },
    )
    opened.start()
    return opened
  }
  const events = keepListening({ open, onLost: () => look(...IP_FAMILIES), onError })
  return {
    close() {
      clearTimeout(settleTimer)
      clearTimeout(lookTimer)
      events.close()
    },
  }
}
