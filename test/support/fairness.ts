/** How connections that many nodes open to one virtual server spread over its real servers. */
import { type AdditionOrder, orderOfNode } from '../../src/ipvs/addition-order.ts'
import { diffVirtualServer } from '../../src/ipvs/diff.ts'
import { type VirtualServer, virtualServerKey } from '../../src/ipvs/types.ts'
import type { SchedulerName } from '../../src/values/schedulers.ts'
import { ModelledServer } from './scheduler-models.ts'
import { makeRealServer, makeVirtualServer } from './virtual-servers.ts'

/** The order of a proxy that adds what it has sorted. */
export const inKeyOrder = (): AdditionOrder => () => undefined

/** Virtual server number 0 to 255 with this many endpoints, 10 to 99 in key order. */
export function virtualServerOf(number: number, endpoints: number): VirtualServer {
  const servers = Array.from({ length: endpoints }, (_, index) => makeRealServer(`10.244.0.${index + 10}`, 1, 8080))
  return makeVirtualServer(`10.96.0.${number}`, servers)
}

export interface Opened {
  readonly scheduler: SchedulerName
  readonly server: VirtualServer
  readonly nodes: number
  /** Of each node. */
  readonly connections: number
  /** By the name of the node; default: ours. */
  readonly order?: (node: string) => AdditionOrder
}

/** The connections that each real server gets of all nodes together; those without one are left out. */
export function firstConnections({ scheduler, server, nodes, connections, order = orderOfNode }: Opened): number[] {
  const desired = { ...server, scheduler }
  const counts = new Map<string, number>()
  for (let node = 0; node < nodes; node++) {
    const model = new ModelledServer(scheduler)
    const ops = diffVirtualServer(virtualServerKey(server), desired, undefined, undefined, order(`node-${node}`))
    for (const op of ops) if (op.kind === 'add-real-server') model.add(op.realServer.address)
    for (let count = 0; count < connections; count++) {
      const chosen = model.connect()
      counts.set(chosen, (counts.get(chosen) ?? 0) + 1)
    }
  }
  return [...counts.values()]
}

/** The most that one of `endpoints` got, as a multiple of the mean: 1 is perfect. */
export function fairness(counts: readonly number[], endpoints: number): number {
  const all = counts.reduce((sum, count) => sum + count, 0)
  return Math.max(...counts) / (all / endpoints)
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
