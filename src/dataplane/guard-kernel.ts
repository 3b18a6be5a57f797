/**
 * The kernel side of sets and rules: the ipset connections and the iptables programs this node uses.
 * What could break: ipset announces no changes; they are looked for in every audit round.
 */
import { openNetlinkConnection } from '../../native/open.ts'
import { IpsetConnection } from '../ipset/connection.ts'
import { EntryTable } from '../ipset/entries.ts'
import type { EntryRunOptions } from '../ipset/entry-run.ts'
import { ipsetError } from '../ipset/errors.ts'
import { SetTable } from '../ipset/sets.ts'
import { IPVS_MODE } from '../iptables/layout.ts'
import { IptablesTable } from '../iptables/table.ts'
import type { NetlinkConnection } from '../netlink/connection.ts'
import { NETLINK_NETFILTER } from '../netlink/constants.ts'
import { KernelError } from '../netlink/errors.ts'
import { HostIptables } from '../node/iptables-programs.ts'
import type { IpFamily } from '../values/protocol.ts'
import { chooseBackEnd } from './iptables-back-end.ts'
import type { SetsAndRulesTables } from './sets-and-rules.ts'

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
      chains: families.map((family) => new IptablesTable(family, iptables, IPVS_MODE, iptables.choice.suffix)),
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
