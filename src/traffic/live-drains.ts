/**
 * The drains that the kernel has.
 * @impure
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { IpvsConnection } from '../ipvs/connection.ts'
import { canDrain, isDraining } from '../ipvs/drains.ts'
import { realServerKey, virtualServerKey } from '../ipvs/types.ts'

export interface LiveDrain {
  readonly virtualServer: string
  readonly realServer: string
  readonly active: number
  readonly inactive: number
}

const TURN_MS = 8

export async function listDrains(
  ipvs: Pick<IpvsConnection, 'listServices' | 'listDestinations'>,
  signal: AbortSignal,
): Promise<readonly LiveDrain[]> {
  const drains: LiveDrain[] = []
  let turnMs = performance.now() + TURN_MS
  for (const service of await ipvs.listServices({ signal })) {
    if (service.kind !== 'address' || !canDrain(service.fields.protocol)) continue
    if (performance.now() > turnMs) {
      await nextTurn(undefined, { signal })
      turnMs = performance.now() + TURN_MS
    }
    const virtualServer = virtualServerKey(service.fields)
    for (const { realServer, activeConnections, inactiveConnections } of await ipvs.listDestinations(service.fields, {
      signal,
    }))
      if (isDraining(service.fields.protocol, realServer))
        drains.push({
          virtualServer,
          realServer: realServerKey(realServer),
          active: activeConnections,
          inactive: inactiveConnections,
        })
  }
  return drains
}
