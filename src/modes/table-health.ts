/**
 * Whether a kernel table cannot be written. A key that fails is no trouble of its table: everyone who may create Services can
 * make keys that fail, and must not take a node out of service with them.
 */
import type { TableSync } from '../sync/table-sync.ts'
import type { IpFamily } from '../values/protocol.ts'

/** A table, or the part of one that is for one family, and whether it is in trouble. */
export interface TableHealth {
  readonly what: string
  readonly families: readonly IpFamily[]
  readonly wrong: boolean
}

/**
 * Faults of a table, whichever key shows them: rights, memory, a module or device that is gone, answers of the kernel that
 * are lost or make no sense. A Service cannot cause these, as it can EINVAL (an address that the kernel refuses) or
 * EPROTONOSUPPORT (SCTP where IPVS was built without).
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
])

/**
 * Whether a table of Services' items is in trouble: the fault is the table's, or several items are wanted and none of them
 * could be written. A single item may be a bad one.
 */
export function isTableInTrouble({
  failures,
  desiredCount,
}: Pick<TableSync<unknown, unknown>, 'failures' | 'desiredCount'>): boolean {
  for (const code of failures.codes) if (FAULTS_OF_TABLES.has(code)) return true
  return failures.wantedCount > 1 && failures.wantedCount === desiredCount
}
