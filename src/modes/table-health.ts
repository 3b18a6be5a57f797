/**
 * Decides whether a kernel table is faulty. A failing key alone does not make its table faulty:
 * every user who can create Services can cause failing keys, and must not be able to take a node
 * out of service with them.
 */
import type { CountedTable } from '../metrics/sources.ts'
import type { TableSync } from '../sync/table-sync.ts'
import type { IpFamily } from '../values/protocol.ts'

/** A table, or its part of one family, and whether it is faulty. */
export interface TableHealth {
  readonly what: string
  readonly families: readonly IpFamily[]
  readonly wrong: boolean
}

/** A table of a running mode, for metrics and health. */
export interface ListedTable {
  readonly counted: CountedTable
  /** The cost does not depend on the number of items or failures. */
  health(): readonly TableHealth[]
}

/** A table of Services' items: it is faulty only when `isTableFaulty` says so. */
export function tableOfServices<Item, Op>(sync: TableSync<Item, Op>, families: readonly IpFamily[]): ListedTable {
  return { counted: sync, health: () => [{ what: sync.kind.name, families, wrong: isTableFaulty(sync) }] }
}

/** Whether an item of a table fails: a table that all Services need is faulty then. */
export function hasFailing<Item, Op>(sync: TableSync<Item, Op>): boolean {
  for (const _ of sync.failing()) return true
  return false
}

/**
 * Errors that are a table's fault, not the key's: missing rights, memory, module or device, answers
 * of the kernel that are lost or malformed, a program that does not run or does not end, or a lock
 * that another program keeps. A Service cannot cause these, but it can cause
 * EINVAL (an address that the kernel refuses) or EPROTONOSUPPORT (SCTP with an IPVS that was built
 * without it).
 */
const FAULTS_OF_TABLES: ReadonlySet<string> = new Set([
  'EPERM',
  'ENODEV',
  'ENOMEM',
  'ENOBUFS',
  'netlink-timeout',
  'netlink-overrun',
  'netlink-truncated',
  'netlink-malformed',
  'netlink-closed',
  'genl-family-missing',
  'device-missing',
  'program-missing',
  'program-failed',
  'program-timeout',
  'program-output',
  'iptables-missing',
  'iptables-locked',
])

/**
 * Whether a table of Services' items is faulty: it has such an error, or several items are wanted
 * and none of them could be written. A single wanted item may itself be invalid.
 */
export function isTableFaulty({
  failures,
  desiredCount,
}: Pick<TableSync<unknown, unknown>, 'failures' | 'desiredCount'>): boolean {
  for (const code of failures.codes) if (FAULTS_OF_TABLES.has(code)) return true
  return failures.wantedCount > 1 && failures.wantedCount === desiredCount
}
