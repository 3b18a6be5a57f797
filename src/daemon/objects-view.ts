/** What the daemon wants in the kernel for one Service, as it tells over the local socket. */
import type { ObjectsView } from '../inspect/view.ts'
import type { Mode } from '../modes/mode.ts'
import type { WantedObject } from '../explain/wanted-objects.ts'
import type { Frontend } from '../service/frontends.ts'
import type { DesiredFrontends } from '../sync/desired-frontends.ts'
import type { Turns } from './turns.ts'

export interface ObjectsViewOptions {
  readonly desired: Pick<DesiredFrontends, 'claimedBy' | 'claims'>
  readonly mode: Pick<Mode, 'wantedObjects'>
  readonly turns: Turns
  /** The most objects in one answer; a real server and a rule count as much as an object. */
  readonly limit: number
}

/** The objects of a Service's frontends, without those that another Service has won. */
export async function wantedObjects(
  owner: string,
  { desired, mode, turns, limit }: ObjectsViewOptions,
): Promise<Omit<ObjectsView, 'format'>> {
  const won: Frontend[] = []
  for (const key of desired.claimedBy(owner)) {
    const [first] = desired.claims(key)
    if (first?.owner === owner) won.push(first.value)
    if (turns.isDue) await turns.next()
  }
  const objects: WantedObject[] = []
  let left = limit
  let omitted = 0
  for (const object of mode.wantedObjects(won)) {
    if (left > 0) objects.push(object)
    else omitted++
    left -= sizeOf(object)
    if (turns.isDue) await turns.next()
  }
  return { objects, omitted }
}

function sizeOf(object: WantedObject): number {
  switch (object.kind) {
    case 'virtual-server':
      return 1 + object.server.realServers.length
    case 'chain':
      return 1 + object.rules.length
    default:
      return 1
  }
}
