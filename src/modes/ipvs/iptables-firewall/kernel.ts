/**
 * Opens what the firewall of ipsets and iptables reads and writes: two connections to ipset, and
 * the programs of iptables.
 */
import { findNetfilter } from '../../../../native/open.ts'
import { auditSets } from '../../../ipset/audit.ts'
import type { IpsetConnection } from '../../../ipset/connection.ts'
import { countedConnection } from '../../../metrics/sources.ts'
import { requireSetLookup } from '../../../node/capabilities.ts'
import { familiesWithIptables, type FamilySupport } from '../../../node/families.ts'
import type { IptablesChoice } from '../../../node/iptables-choice.ts'
import type { IptablesBackEnd } from '../../../node/installed-iptables.ts'
import { HostIptables } from '../../../node/iptables-programs.ts'
import { CodedError } from '../../../values/errors.ts'
import type { IpFamily } from '../../../values/protocol.ts'
import { watchRules } from '../../announcements.ts'
import { chooseBackEnd } from '../../iptables-back-end.ts'
import { lacksMatch } from '../../missing-match.ts'
import { IPVS_LAYOUT } from '../../leftovers/layouts.ts'
import type { FirewallKind, OpenedFirewall } from '../firewall.ts'
import { type FirewallKernel, IptablesFirewall } from './firewall.ts'
import { openIpset } from '../../open-ipset.ts'
import { hasSets, openSetRemains } from './remains.ts'
import { openTables } from './tables.ts'

export const IPTABLES_FIREWALL: FirewallKind = {
  async open(allowed, signal) {
    const { choice, support, ipset } = await findParts(allowed, signal, chooseBackEnd)
    try {
      return openedFirewall(new HostIptables(choice), support, ipset, await openIpset(signal))
    } catch (error) {
      ipset.close()
      throw error
    }
  },

  async ask(allowed, signal, options) {
    const { ipset } = await findParts(allowed, signal, (...of) => chooseBackEnd(...of, options))
    ipset.close()
  },

  isLeft: hasSets,
  remains: openSetRemains,
}

interface Parts {
  readonly choice: IptablesChoice
  readonly support: FamilySupport
  readonly ipset: IpsetConnection
}

/** Rejects with the first thing that is missing, and last with `capability-missing`: nobody needs rights for what cannot work. */
async function findParts(
  allowed: FamilySupport,
  signal: AbortSignal,
  choose: (families: readonly IpFamily[], signal: AbortSignal) => Promise<IptablesChoice>,
): Promise<Parts> {
  const choice = await choose(allowed.families, signal)
  const support = familiesWithIptables(allowed, choice.unusable)
  const ipset = await openIpset(signal)
  try {
    await requireSetMatch(choice.mode, support.families, signal)
    requireSetLookup()
    return { choice, support, ipset }
  } catch (error) {
    ipset.close()
    throw error
  }
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

/** Rejects with `set-match-missing` when rules of a family cannot name sets. The start check reports what is unknown. */
async function requireSetMatch(
  backEnd: IptablesBackEnd,
  families: readonly IpFamily[],
  signal: AbortSignal,
): Promise<void> {
  const netlink = backEnd === 'nft' ? findNetfilter() : undefined
  try {
    for (const family of families) {
      const isUnknown = (): boolean => {
        signal.throwIfAborted()
        return false
      }
      if (await lacksMatch(netlink, 'set', family, signal).catch(isUnknown))
        throw new CodedError(
          'set-match-missing',
          `the kernel has no match "set" for ${family}: load the module "xt_set" (modprobe xt_set)`,
        )
    }
  } finally {
    netlink?.close()
  }
}
