/**
 * Opens what the firewall of ipsets and iptables reads and writes: two connections to ipset, and
 * the programs of iptables.
 */
import { findNetfilter } from '../../../../native/open.ts'
import { askXtables } from '../../../../native/xtables-query.ts'
import { auditSets } from '../../../ipset/audit.ts'
import type { IpsetConnection } from '../../../ipset/connection.ts'
import { hasExtension, hasNftCompat } from '../../../nftables/support.ts'
import { countedConnection } from '../../../metrics/sources.ts'
import type { NetlinkConnection } from '../../../netlink/connection.ts'
import { requireSetLookup } from '../../../node/capabilities.ts'
import { familiesWithIptables, type FamilySupport } from '../../../node/families.ts'
import type { IptablesBackEnd } from '../../../node/installed-iptables.ts'
import { HostIptables } from '../../../node/iptables-programs.ts'
import { CodedError } from '../../../values/errors.ts'
import type { IpFamily } from '../../../values/protocol.ts'
import { watchRules } from '../../announcements.ts'
import { chooseBackEnd } from '../../iptables-back-end.ts'
import { IPVS_LAYOUT } from '../../leftovers/layouts.ts'
import type { FirewallKind, OpenedFirewall } from '../firewall.ts'
import { type FirewallKernel, IptablesFirewall } from './firewall.ts'
import { openIpset } from '../../open-ipset.ts'
import { hasSets, openSetRemains } from './remains.ts'
import { openTables } from './tables.ts'

export const IPTABLES_FIREWALL: FirewallKind = {
  requireRights: requireSetLookup,

  async open(allowed, signal) {
    const iptables = new HostIptables(await chooseBackEnd(allowed.families, signal))
    const support = familiesWithIptables(allowed, iptables.choice.unusable)
    const opened: IpsetConnection[] = []
    try {
      const ipset = await openIpset(signal)
      opened.push(ipset)
      const auditIpset = await openIpset(signal)
      opened.push(auditIpset)
      await requireSetMatch(iptables.choice.mode, support.families, signal)
      return openedFirewall(iptables, support, ipset, auditIpset)
    } catch (error) {
      for (const connection of opened) connection.close()
      throw error
    }
  },

  async ask({ families }, signal) {
    const ipset = await openIpset(signal)
    ipset.close()
    const { mode, unusable } = await chooseBackEnd(families, signal, { mayLoadModules: false })
    const served = families.filter((family) => unusable[family] === undefined)
    await requireSetMatch(mode, served, signal)
  },

  isLeft: hasSets,
  remains: openSetRemains,
}

/** Audits use a separate connection, so that a change never waits until an audit has listed a set. */
function openedFirewall(
  iptables: HostIptables,
  support: FamilySupport,
  ipset: IpsetConnection,
  auditIpset: IpsetConnection,
): OpenedFirewall {
  const { families } = support
  const layout = IPVS_LAYOUT
  const close = (): void => {
    for (const connection of [ipset, auditIpset]) connection.close()
  }
  const kernel: FirewallKernel = {
    families,
    choice: iptables.choice,
    openTables: (options) => openTables({ ...options, ipset, iptables, layout, families }),
    watchRules: (options) => watchRules({ ...options, iptables, layout }),
    auditSets: (options) => auditSets({ ...options, ipset: auditIpset, families }),
    connections: () => [countedConnection('ipset', ipset), countedConnection('ipset-audit', auditIpset)],
    close,
  }
  return { support, create: (options) => new IptablesFirewall({ ...options, kernel }), close }
}

/** Rejects with `set-match-missing` when rules of a family cannot name sets. */
async function requireSetMatch(
  backEnd: IptablesBackEnd,
  families: readonly IpFamily[],
  signal: AbortSignal,
): Promise<void> {
  const netlink = backEnd === 'nft' ? findNetfilter() : undefined
  try {
    for (const family of families)
      if (await lacksSetMatch(netlink, family, signal))
        throw new CodedError(
          'set-match-missing',
          `the kernel has no match "set" for ${family}: load the module "xt_set" (modprobe xt_set)`,
        )
  } finally {
    netlink?.close()
  }
}

/**
 * Unknown is not missing: while ip_tables is not loaded, without nft_compat (no mode can write
 * rules then), and when the kernel refuses the question. The start check reports these.
 * @param netlink absent: the back end is legacy
 */
async function lacksSetMatch(
  netlink: NetlinkConnection | undefined,
  family: IpFamily,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    if (netlink === undefined) return askXtables('match', 'set', family) === 'missing'
    const isThere = await hasExtension(netlink, { kind: 'match', name: 'set' }, family, { signal })
    return !isThere && (await hasNftCompat(netlink, { signal }))
  } catch {
    signal.throwIfAborted()
    return false
  }
}
