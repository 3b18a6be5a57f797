/**
 * The kernel side of sets and rules: the ipset connections and the iptables programs this node uses. ipset announces no
 * changes; every audit round looks for them.
 */
import { findNetfilter } from '../../../native/open.ts'
import { IpsetConnection } from '../../ipset/connection.ts'
import type { EntryRunOptions } from '../../ipset/entry-run.ts'
import { ipsetError } from '../../ipset/errors.ts'
import { EntryTable, SetTable } from '../../ipset/tables.ts'
import { IptablesTable } from '../../iptables/table.ts'
import { familiesWithIptables, type FamilySupport } from '../../node/families.ts'
import { HostIptables } from '../../node/iptables-programs.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { chooseBackEnd } from '../iptables-back-end.ts'
import { IPVS_LAYOUT } from '../leftovers/layouts.ts'
import type { SetsAndRulesTables } from './sets-and-rules.ts'

export interface GuardKernel {
  readonly ipset: IpsetConnection
  /** Its own connection: a list never holds a change up. */
  readonly auditIpset: IpsetConnection
  readonly iptables: HostIptables
  /** The families whose rules can be written. */
  readonly support: FamilySupport
  readonly tables: (hooks: EntryRunOptions) => SetsAndRulesTables
  close(): void
}

/**
 * `kernel` has the families to look at. Rejects with `ipset-missing` or `iptables-missing`, which say what to load or install;
 * the latter also when the rules of no family can be written.
 */
export async function openGuardKernel(kernel: FamilySupport, signal: AbortSignal): Promise<GuardKernel> {
  const iptables = new HostIptables(await chooseBackEnd(kernel.families, signal))
  const support = familiesWithIptables(kernel, iptables.choice.unusable)
  const ipset = await openIpset(signal)
  const auditIpset = await openIpset(signal)
  return {
    ipset,
    auditIpset,
    iptables,
    support,
    tables: (hooks) => ({
      sets: new SetTable(ipset, support.families),
      entries: new EntryTable(ipset, { families: support.families, ...hooks }),
      chains: chainsOf(support.families, iptables),
    }),
    close() {
      ipset.close()
      auditIpset.close()
    },
  }
}

function chainsOf(families: readonly IpFamily[], iptables: HostIptables): IptablesTable[] {
  return families.map((family) => new IptablesTable(family, iptables, IPVS_LAYOUT, iptables.choice.suffix))
}

/** A connection to ipset. Rejects with `ipset-missing`, which names the module. */
export async function openIpset(signal: AbortSignal): Promise<IpsetConnection> {
  const netlink = findNetfilter()
  if (netlink === undefined) {
    const message = 'the kernel has no nfnetlink and so no ipset: load the module "ip_set" (modprobe ip_set)'
    throw ipsetError('ipset-missing', message)
  }
  return IpsetConnection.open(netlink, { signal })
}
