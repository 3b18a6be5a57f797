/**
 * Decides whether a kernel table is faulty. A failing key alone does not make its table faulty: every user who can create Services
 * can cause failing keys, and must not be able to take a node out of service with them.
 */
import type { TableSync } from '../sync/table-sync.ts'
import type { IpFamily } from '../values/protocol.ts'

/** A table, or its part of one family, and whether it is faulty. */
export interface TableHealth {
  readonly what: string
  readonly families: readonly IpFamily[]
  readonly wrong: boolean
}

/**
 * Errors that are a table's fault, not the key's: missing rights, memory, module or device, or answers of the kernel that are
 * lost or malformed. A Service cannot cause these, but it can cause EINVAL (an address that the kernel refuses) or
 * EPROTONOSUPPORT (SCTP with an IPVS that was built without it).
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
 * Whether a table of Services' items is faulty: it has such an error, or several items are wanted and none of them could be
 * written. A single wanted item may itself be invalid.
 */
export function isTableFaulty({
  failures,
  desiredCount,
}: Pick<TableSync<unknown, unknown>, 'failures' | 'desiredCount'>): boolean {
  for (const code of failures.codes) if (FAULTS_OF_TABLES.has(code)) return true
  return failures.wantedCount > 1 && failures.wantedCount === desiredCount
}
