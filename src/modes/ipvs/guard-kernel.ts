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
import { CodedError } from '../../values/errors.ts'
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

/** What an earlier proxy may have left of sets and rules. */
export interface LeftGuard {
  /** Sets of every family, and chains of those that have programs. */
  readonly tables: () => SetsAndRulesTables
  close(): void
}

const UNHEARD: EntryRunOptions = { onSetLost: () => undefined, onGrown: () => undefined }

/** `families`: those that the kernel has. Rejects with `ipset-missing`; without programs of iptables there are no chains. */
export async function openLeftGuard(families: readonly IpFamily[], signal: AbortSignal): Promise<LeftGuard> {
  const iptables = await hostIptables(families, signal)
  const ipset = await openIpset(signal)
  const reached = families.filter((family) => iptables?.choice.programs[family] !== undefined)
  return {
    tables: () => ({
      sets: new SetTable(ipset, families),
      entries: new EntryTable(ipset, { families, ...UNHEARD }),
      chains: iptables === undefined ? [] : chainsOf(reached, iptables),
    }),
    close: () => ipset.close(),
  }
}

async function hostIptables(families: readonly IpFamily[], signal: AbortSignal): Promise<HostIptables | undefined> {
  try {
    return new HostIptables(await chooseBackEnd(families, signal))
  } catch (error) {
    if (error instanceof CodedError && error.code === 'iptables-missing') return undefined
    throw error
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
