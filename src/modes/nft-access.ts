/**
 * The tables of iptables-nft over nfnetlink. It is needed on few nodes, so each question has a
 * connection of its own.
 */
import { askNetfilter } from '../../native/open.ts'
import { deleteNftRules } from '../nftables/removal.ts'
import { listNftChains, listNftRules, visitNftRules } from '../nftables/rules.ts'
import { FIRST_WAIT_MS, MAX_MOVES, MOVES_WITHIN_MS } from '../iptables/jump-order.ts'
import type { ChainLayout, LayoutJump } from '../iptables/layout.ts'
import { portsTaken } from '../iptables/rival-rules.ts'
import type { RivalRule } from '../iptables/types.ts'
import { type AllRules, readAllRules } from '../iptables/read-all-rules.ts'
import { type ReadRules, readRules, unprintableText } from '../iptables/read-rules.ts'
import type { IptablesTableOptions } from '../iptables/table.ts'
import type { NftAccess } from '../iptables/types.ts'
import type { HostIptables } from '../node/iptables-programs.ts'
import type { ProblemLog } from '../serve/problem-log.ts'
import type { IpFamily } from '../values/protocol.ts'

/**
 * Reports after each reading of the rules of a family what other programs did to them: tables that
 * cannot be printed, rules in front of ours.
 */
export function foreignRulesReporter(
  problems: Pick<ProblemLog, 'report'>,
): NonNullable<IptablesTableOptions['onRead']> {
  return (family, { unprintable, contested }) => {
    problems.report(
      'iptables',
      `printing ${family}`,
      unprintable.map((one) => ({
        code: 'iptables-table-incompatible',
        about: 'node',
        subject: `table ${one.table} of ${family}`,
        message: unprintableText(one),
      })),
    )
    problems.report(
      'iptables',
      `order of ${family}`,
      contested.map(({ place, rival }) => ({
        code: 'jump-displaced',
        about: 'node',
        subject: `chain ${place.from} of ${place.table} of ${family}`,
        message: contestedText(place, rival),
      })),
    )
  }
}

/** Ports and rules that a message names. */
const NAMED = 5

function contestedText({ table, from, to }: LayoutJump, { rule, takes }: RivalRule): string {
  const ports = portsTaken(takes).slice(0, NAMED).join(', ')
  const [first = ''] = takes
  return (
    `the rule "-t ${table} -A ${from} ${rule}" takes packets of Services (${ports}, by "${first}"), because it stands in front of the jump to ${to}: ` +
    `another program has put it there ${MAX_MOVES} times within ${MOVES_WITHIN_MS / 60_000} minutes after the jump was moved to the top, which is now tried again in ${FIRST_WAIT_MS / 60_000} minutes and then more and more rarely; ` +
    'let that program append its rule (iptables -A), or stop it'
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

/** Every rule of a family, also those of other programs. Rejects with a CodedError when nothing can be read. */
export function allRulesOf(iptables: HostIptables, family: IpFamily, signal: AbortSignal): Promise<AllRules> {
  return readAllRules(family, iptables, nftAccessOf(iptables), signal)
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
  chains: (family, table, signal) => askNetfilter([], (netlink) => listNftChains(netlink, family, table, { signal })),
  rules: (query, signal) => askNetfilter([], (netlink) => listNftRules(netlink, query, { signal })),
  visitRules: (query, visit, onRestart, signal) =>
    askNetfilter(undefined, (netlink) => visitNftRules(netlink, query, visit, { signal, onRestart })),
  deleteRules: (family, rules, signal) =>
    askNetfilter(undefined, (netlink) => deleteNftRules(netlink, family, rules, { signal })),
}
