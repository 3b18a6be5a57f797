/** The tables of iptables-nft over nfnetlink. It is needed on few nodes, so each question has a connection of its own. */
import { findNetfilter } from '../../native/open.ts'
import { deleteNftRules, listNftChains, listNftRules, visitNftRules } from '../iptables/nft-rules.ts'
import type { ChainLayout } from '../iptables/layout.ts'
import { type ReadRules, readRules, unprintableText } from '../iptables/read-rules.ts'
import type { IptablesTableOptions } from '../iptables/table.ts'
import type { NftAccess } from '../iptables/types.ts'
import type { NetlinkConnection } from '../netlink/connection.ts'
import type { HostIptables } from '../node/iptables-programs.ts'
import type { ProblemLog } from '../serve/problem-log.ts'
import type { IpFamily } from '../values/protocol.ts'

/** Reports the tables of a family that cannot be printed, after each reading of its rules. */
export function unprintableReporter(problems: ProblemLog): NonNullable<IptablesTableOptions['onRead']> {
  return (family, unprintable) =>
    problems.report(
      'iptables',
      `printing ${family}`,
      unprintable.map((one) => ({
        code: 'iptables-table-incompatible',
        subject: `table ${one.table} of ${family}`,
        message: unprintableText(one),
      })),
    )
}

/** The rules of a family as far as anything can read them. Rejects with a CodedError when nothing can. */
export function readRulesOf(
  iptables: HostIptables,
  family: IpFamily,
  layout: ChainLayout,
  signal: AbortSignal,
): Promise<ReadRules> {
  return readRules({ family, programs: iptables, nft: nftAccessOf(iptables) }, layout, signal)
}

/** undefined: legacy has no such tables. */
export function nftAccessOf(iptables: HostIptables): NftAccess | undefined {
  if (iptables.choice.mode !== 'nft') return undefined
  return {
    ...OVER_NETLINK,
    saveTable: iptables.saveTable.bind(iptables),
    showChains: iptables.showChains.bind(iptables),
  }
}

const OVER_NETLINK: Omit<NftAccess, 'saveTable' | 'showChains'> = {
  chains: (family, table, signal) => connected([], (netlink) => listNftChains(netlink, family, table, { signal })),
  rules: (query, signal) => connected([], (netlink) => listNftRules(netlink, query, { signal })),
  visitRules: (query, visit, onRestart, signal) =>
    connected(undefined, (netlink) => visitNftRules(netlink, query, visit, { signal, onRestart })),
  deleteRules: (family, rules, signal) =>
    connected(undefined, (netlink) => deleteNftRules(netlink, family, rules, { signal })),
}

/** `none`: what there is where the kernel has no nfnetlink. */
async function connected<T>(none: T, work: (netlink: NetlinkConnection) => Promise<T>): Promise<T> {
  const netlink = findNetfilter()
  if (netlink === undefined) return none
  try {
    return await work(netlink)
  } finally {
    netlink.close()
  }
}
