/** Adds to the rows of a plan which Service needs each item: tables know only keys, and a mode knows what it wants for a Service. */
import type { WantedObject } from '../explain/wanted-objects.ts'
import { entryKey } from '../ipset/types.ts'
import { CHAIN_TABLES } from '../iptables/diff.ts'
import { chainKey } from '../iptables/layout.ts'
import type { Frontend } from '../service/frontends.ts'
import type { Claim } from '../sync/owned-map.ts'
import type { PlanRow } from '../sync/plan.ts'
import type { Mode } from './mode.ts'

/** @param claims the winners */
export function withOwners(
  rows: readonly PlanRow[],
  claims: Iterable<Claim<Frontend>>,
  mode: Pick<Mode, 'wantedObjects'>,
): PlanRow[] {
  const owners = new Map<string, string | undefined>()
  for (const [owner, ofOwner] of Map.groupBy(claims, (claim) => claim.owner))
    for (const object of mode.wantedObjects(ofOwner.map(({ value }) => value))) {
      const place = placeOf(object)
      if (place === undefined) continue
      const isShared = owners.has(place) && owners.get(place) !== owner
      owners.set(place, isShared ? undefined : owner)
    }
  return rows.map((row) => {
    const owner = owners.get(`${row.table} ${row.key}`)
    return owner === undefined ? row : { ...row, owner }
  })
}

/** Table and key of an item; undefined for a rule, whose chain all Services share. */
function placeOf(object: WantedObject): string | undefined {
  switch (object.kind) {
    case 'virtual-server':
      return `virtual-servers ${object.frontend}`
    case 'set-entry':
      return `set-entries ${entryKey(object)}`
    case 'address':
      return `addresses ${object.address}`
    case 'route':
      return `routes ${object.route.address}`
    case 'chain':
      return `${CHAIN_TABLES[object.family]} ${chainKey(object.table, object.chain)}`
    case 'rule':
      return undefined
  }
}
