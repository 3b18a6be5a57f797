/**
 * Which kernel tables cannot be written: not a key that fails, but the table. Whoever may create Services can make keys
 * that fail, and must not take a node out of service with them. So a table of Services' things is in trouble only when
 * nothing is in it, or for reasons that no item has.
 */
import { CATALOGUE } from '../ipset/catalogue.ts'
import type { TableSync } from '../sync/table-sync.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { IpvsDataplane } from './ipvs/dataplane.ts'

/** A table, or the part of one that is for one family, and whether it is in trouble. */
export interface TableHealth {
  readonly what: string
  readonly families: readonly IpFamily[]
  readonly wrong: boolean
}

type Wanted = Pick<TableSync<unknown, unknown>, 'failing' | 'failures' | 'desiredCount'>

/**
 * What goes wrong with a table, whichever key it shows at: rights, memory, a module or device that is gone, answers of the
 * kernel that are lost or make no sense. A Service cannot bring these about, as it can EINVAL (an address that the kernel
 * refuses) or EPROTONOSUPPORT (SCTP where IPVS was built without).
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

/** The chains of iptables mode after a pass over rules: most are of Services, and a single one may be a bad one. */
export function* chainHealth(
  loops: Iterable<{ readonly family: IpFamily; readonly sync: Wanted & { readonly table: { readonly name: string } } }>,
): Generator<TableHealth> {
  for (const { sync, family } of loops) yield { what: sync.table.name, families: [family], wrong: isInTrouble(sync) }
}

/** Every table of ipvs mode as it stands after a pass. It costs the same whatever is there and whatever fails. */
export function* tableHealth(dataplane: IpvsDataplane, families: readonly IpFamily[]): Generator<TableHealth> {
  const { guard } = dataplane
  // What does not come from Services: each of these is needed by all of them.
  yield { what: 'device', families, wrong: any(dataplane.device.failing()) }
  for (const { sync, family } of guard.loops)
    yield { what: sync.table.name, families: [family], wrong: any(sync.failing()) }
  const failingSets = new Set(Array.from(guard.sets.failing(), ([name]) => name))
  for (const family of families) {
    const wrong = CATALOGUE.some((set) => set.family === family && failingSets.has(set.name))
    yield { what: `sets ${family}`, families: [family], wrong }
  }
  for (const sync of [guard.entries, dataplane.virtualServers, dataplane.addresses])
    yield { what: sync.table.name, families, wrong: isInTrouble(sync) }
}

function any(failing: Iterable<unknown>): boolean {
  for (const _ of failing) return true
  return false
}

/** Whether the fault is the table's, or nothing of what is wanted could be written. A single item may be a bad one. */
function isInTrouble({ failures, desiredCount }: Wanted): boolean {
  for (const code of failures.codes) if (FAULTS_OF_TABLES.has(code)) return true
  return failures.wantedCount > 1 && failures.wantedCount === desiredCount
}
