/**
 * Announcements of changed rules.
 * What could break: nf_tables announces changes, legacy iptables does not; there they are looked for in every audit round.
 */
import { openNetlinkGroups } from '../../native/open.ts'
import type { ChainLayout } from '../iptables/layout.ts'
import { LookThrottle } from '../iptables/look-throttle.ts'
import { NFNLGRP_NFTABLES } from '../iptables/nft-codec.ts'
import { type NftEvent, NftEvents } from '../iptables/nft-events.ts'
import { NETLINK_NETFILTER } from '../netlink/constants.ts'
import type { HostIptables } from '../node/iptables-programs.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'

export interface RuleWatchOptions {
  readonly iptables: HostIptables
  /** Of the mode. */
  readonly layout: ChainLayout
  /** Somebody may have changed the rules of this family. */
  readonly doubtRules: (family: IpFamily) => void
  readonly onError: (error: unknown) => void
}

/** After a failure of the socket itself. */
const REOPEN_MS = 1000

/** Listens to changes of rules until closed; with legacy iptables there is nothing to hear. */
export function watchRules({ iptables, layout, doubtRules, onError }: RuleWatchOptions): { close(): void } {
  if (iptables.choice.mode === 'legacy') return { close: () => undefined }
  const throttle = new LookThrottle()
  let lookTimer: NodeJS.Timeout | undefined
  let reopenTimer: NodeJS.Timeout | undefined
  const look = (...families: readonly IpFamily[]): void => {
    for (const family of families) throttle.request(family)
    clearTimeout(lookTimer)
    for (const family of throttle.takeDue(performance.now())) doubtRules(family)
    const nextMs = throttle.nextDueMs()
    if (nextMs !== undefined) lookTimer = setTimeout(look, Math.max(0, nextMs - performance.now()))
  }
  const listener = (event: NftEvent): void => {
    switch (event.kind) {
      case 'changed':
        return look(event.change.family)
      case 'overrun':
        return look(...IP_FAMILIES)
      case 'failed':
        onError(event.cause)
        reopenTimer = setTimeout(() => {
          events = open()
          look(...IP_FAMILIES)
        }, REOPEN_MS)
    }
  }
  const open = (): NftEvents => {
    const transport = openNetlinkGroups(NETLINK_NETFILTER, [NFNLGRP_NFTABLES])
    const opened = new NftEvents(transport, layout, (portId) => iptables.isOwn(portId), listener)
    opened.start()
    return opened
  }
  let events = open()
  return {
    close() {
      clearTimeout(lookTimer)
      clearTimeout(reopenTimer)
      events.close()
    },
  }
}
