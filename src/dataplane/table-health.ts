/**
 * Which kernel tables cannot be written: not a key that fails, but the table.
 * What could break: whoever may create Services can make keys that fail, and must not take a node out of service with
 * them. So a table of Services' things is in trouble only when most of it is.
 */
import { CATALOGUE } from '../ipset/catalogue.ts'
import type { TableSync } from '../sync/table-sync.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { IpvsDataplane } from './ipvs.ts'

/** A table, or the part of one that is for one family, and whether it is in trouble. */
export interface TableHealth {
  readonly what: string
  readonly families: readonly IpFamily[]
  readonly wrong: boolean
}

/** Fewer keys that fail are bad luck. */
const FEWEST_KEYS = 2

/** Every table of ipvs mode as it stands after a pass. What it costs grows with what fails, not with what is there. */
export function* tableHealth(dataplane: IpvsDataplane, families: readonly IpFamily[]): Generator<TableHealth> {
  const { guard } = dataplane
  // What does not come from Services: each of these is needed by all of them.
  yield { what: 'device', families, wrong: any(dataplane.device.failingKeys()) }
  for (const { sync, family } of guard.loops)
    yield { what: `chains ${family}`, families: [family], wrong: any(sync.failingKeys()) }
  const failingSets = new Set(guard.sets.failingKeys())
  for (const family of families) {
    const wrong = CATALOGUE.some((set) => set.family === family && failingSets.has(set.name))
    yield { what: `sets ${family}`, families: [family], wrong }
  }
  yield { what: 'set entries', families, wrong: mostOf(guard.entries) }
  yield { what: 'virtual servers', families, wrong: mostOf(dataplane.virtualServers) }
  yield { what: 'addresses', families, wrong: mostOf(dataplane.addresses) }
}

function any(keys: Iterable<string>): boolean {
  for (const _ of keys) return true
  return false
}

/** Whether at least half of what is wanted in a table fails. */
function mostOf<Item, Op>(sync: TableSync<Item, Op>): boolean {
  const enough = Math.max(FEWEST_KEYS, sync.desiredCount / 2)
  let failing = 0
  for (const _ of sync.failingKeys()) if (++failing >= enough) return true
  return false
}
