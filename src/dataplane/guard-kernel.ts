/**
 * The kernel side of sets and rules: the ipset connections, the iptables programs this node uses, and announcements of
 * changed rules.
 * What could break: nf_tables announces changes, legacy iptables and ipset do not; what is not announced is looked at in
 * every audit round.
 */
import { openNetlinkConnection, openNetlinkGroups } from '../../native/open.ts'
import { IpsetConnection } from '../ipset/connection.ts'
import { EntryTable } from '../ipset/entries.ts'
import type { EntryRunOptions } from '../ipset/entry-run.ts'
import { ipsetError } from '../ipset/errors.ts'
import { SetTable } from '../ipset/sets.ts'
import { LookThrottle } from '../iptables/look-throttle.ts'
import { NFNLGRP_NFTABLES } from '../iptables/nft-codec.ts'
import { type NftEvent, NftEvents } from '../iptables/nft-events.ts'
import { IptablesTable } from '../iptables/table.ts'
import type { NetlinkConnection } from '../netlink/connection.ts'
import { NETLINK_NETFILTER } from '../netlink/constants.ts'
import { KernelError } from '../netlink/errors.ts'
import { HostIptables } from '../node/iptables-programs.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import { chooseBackEnd } from './iptables-back-end.ts'
import type { SetsAndRules, SetsAndRulesTables } from './sets-and-rules.ts'

export interface GuardKernel {
  readonly ipset: IpsetConnection
  /** Its own connection: a list never holds a change up. */
  readonly auditIpset: IpsetConnection
  readonly iptables: HostIptables
  readonly tables: (hooks: EntryRunOptions) => SetsAndRulesTables
  close(): void
}

/** Rejects with `ipset-missing` or `iptables-missing`, which say what to load or install. */
export async function openGuardKernel(families: readonly IpFamily[], signal: AbortSignal): Promise<GuardKernel> {
  const iptables = new HostIptables(await chooseBackEnd(families, signal))
  const ipset = await openIpset(signal)
  const auditIpset = await openIpset(signal)
  return {
    ipset,
    auditIpset,
    iptables,
    tables: (hooks) => ({
      sets: new SetTable(ipset, families),
      entries: new EntryTable(ipset, { families, ...hooks }),
      chains: families.map((family) => new IptablesTable(family, iptables, iptables.choice.suffix)),
    }),
    close() {
      ipset.close()
      auditIpset.close()
    },
  }
}

/** A connection to ipset. Rejects with `ipset-missing`, which names the module. */
export async function openIpset(signal: AbortSignal): Promise<IpsetConnection> {
  return IpsetConnection.open(openNetfilter(), { signal })
}

function openNetfilter(): NetlinkConnection {
  try {
    return openNetlinkConnection(NETLINK_NETFILTER)
  } catch (cause) {
    if (!(cause instanceof KernelError && cause.code === 'EPROTONOSUPPORT')) throw cause
    const message = 'the kernel has no nfnetlink and so no ipset: load the module "ip_set" (modprobe ip_set)'
    throw ipsetError('ipset-missing', message, { cause })
  }
}

export interface RuleWatchOptions {
  readonly kernel: GuardKernel
  readonly guard: SetsAndRules
  readonly onError: (error: unknown) => void
}

/** After a failure of the socket itself. */
const REOPEN_MS = 1000

/** Listens to changes of rules until closed; with legacy iptables there is nothing to hear. */
export function watchRules({ kernel, guard, onError }: RuleWatchOptions): { close(): void } {
  if (kernel.iptables.choice.mode === 'legacy') return { close: () => undefined }
  const throttle = new LookThrottle()
  let lookTimer: NodeJS.Timeout | undefined
  let reopenTimer: NodeJS.Timeout | undefined
  const look = (...families: readonly IpFamily[]): void => {
    for (const family of families) throttle.request(family)
    clearTimeout(lookTimer)
    for (const family of throttle.takeDue(performance.now())) guard.doubtRules(family)
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
    const opened = new NftEvents(transport, (portId) => kernel.iptables.isOwn(portId), listener)
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
