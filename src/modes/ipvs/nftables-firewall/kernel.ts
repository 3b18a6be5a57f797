/**
 * Opens what the firewall of nf_tables reads and writes: a connection that the tables belong to
 * where the kernel allows it, one for audits, and a socket for announcements. It starts no process.
 */
import { findNetfilter, openNetfilter, openNetlinkGroups } from '../../../../native/open.ts'
import { countedConnection } from '../../../metrics/sources.ts'
import type { NetlinkConnection } from '../../../netlink/connection.ts'
import { NETLINK_NETFILTER } from '../../../netlink/constants.ts'
import { NFNLGRP_NFTABLES } from '../../../nftables/events.ts'
import { privateTableEvents } from '../../../nftables/private-events.ts'
import { PrivateTables } from '../../../nftables/private-table.ts'
import { missingNfTables } from '../../../nftables/refusals.ts'
import { tryPrivateTable } from '../../../nftables/trial.ts'
import type { NftItem } from '../../../nftables/types.ts'
import { requireNetAdmin } from '../../../node/capabilities.ts'
import { type FamilySupport, usableFamilies } from '../../../node/families.ts'
import type { MissingFeature } from '../../../values/errors.ts'
import type { IpFamily } from '../../../values/protocol.ts'
import { keepListening } from '../../announcements.ts'
import type { FirewallKind, OpenedFirewall } from '../firewall.ts'
import { auditTables } from './audit.ts'
import { type NftKernel, NftablesFirewall, type TableListener } from './firewall.ts'
import { layoutOf } from './layout.ts'
import { hasTables, openTableRemains } from './remains.ts'

export const NFTABLES_FIREWALL: FirewallKind = {
  async open(allowed, signal) {
    const netlink = requireNetfilter()
    const opened = [netlink]
    try {
      const { support, mayOwn } = await askSupport(netlink, allowed, signal)
      const audit = openNetfilter()
      opened.push(audit)
      return openedFirewall(support, mayOwn, netlink, audit)
    } catch (error) {
      for (const connection of opened) connection.close()
      throw error
    }
  },

  async ask(allowed, signal) {
    const netlink = requireNetfilter()
    try {
      await askSupport(netlink, allowed, signal)
    } finally {
      netlink.close()
    }
  },

  isLeft: hasTables,
  remains: openTableRemains,
}

function requireNetfilter(): NetlinkConnection {
  requireNetAdmin()
  const netlink = findNetfilter()
  if (netlink !== undefined) return netlink
  throw missingNfTables()
}

export interface NftSupport {
  readonly support: FamilySupport
  readonly mayOwn: boolean
}

/**
 * Tries the tables of these families, and whether those that can be served can belong to this
 * process. Rejects with `nftables-missing` when none can be served.
 */
export async function askSupport(
  netlink: NetlinkConnection,
  allowed: FamilySupport,
  signal: AbortSignal,
): Promise<NftSupport> {
  const unusable: { [family in IpFamily]?: string } = {}
  let first: MissingFeature | undefined
  let mayOwn = true
  for (const family of allowed.families) {
    const trial = await tryPrivateTable(netlink, everything(family), { signal })
    if (trial.lacks === undefined) mayOwn &&= trial.mayOwn
    else {
      unusable[family] = trial.lacks.message
      first ??= trial.lacks
    }
  }
  const support = usableFamilies(allowed, unusable, 'nftables')
  if (support.families.length === 0 && first !== undefined) throw first
  return { support, mayOwn }
}

/** All kinds of chains and statements that the table of a family may have. */
function everything(family: IpFamily): readonly NftItem[] {
  const settings = { localTraffic: undefined, masqueradeAll: false, masqueradeBit: 0 }
  return layoutOf({ ...settings, family, isOwned: true, takesAll: true, refuses: true })
}

/** Audits use a separate connection, so that a change never waits until an audit has listed a table. */
function openedFirewall(
  support: FamilySupport,
  mayOwn: boolean,
  netlink: NetlinkConnection,
  audit: NetlinkConnection,
): OpenedFirewall {
  const { families } = support
  const table = new PrivateTables(netlink, { families })
  const close = (): void => {
    netlink.close()
    audit.close()
  }
  const kernel: NftKernel = {
    families,
    mayOwn,
    table,
    watch: (listener) => watchTables(netlink.portId, listener),
    audit: (options) =>
      auditTables({ ...options, table: new PrivateTables(audit, { families, owner: netlink.portId }) }),
    connections: () => [countedConnection('nftables', netlink), countedConnection('nftables-audit', audit)],
    close,
  }
  return { support, create: (options) => new NftablesFirewall({ ...options, kernel }), close }
}

/** Reads announcements of what others do to the tables until closed. */
export function watchTables(ownPortId: number, { onChanged, onLost, onError }: TableListener): { close(): void } {
  return keepListening({
    open: (losses) => {
      const opened = privateTableEvents(
        openNetlinkGroups(NETLINK_NETFILTER, [NFNLGRP_NFTABLES]),
        (portId) => portId === ownPortId,
        ({ family, isLost, portId }) => onChanged(family, isLost, portId),
        losses,
      )
      opened.start()
      return opened
    },
    onLost,
    onError,
  })
}
