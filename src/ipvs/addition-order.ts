/**
 * In which order a node adds real servers to a virtual server. IPVS puts each at the head of its
 * list, and equal real servers are chosen by their place in it, so one order for all nodes would
 * send the first connection of every node to the same endpoint.
 */
import { hashOf, mixed } from '../values/hash.ts'
import { mayDifferByNode } from '../values/schedulers.ts'
import type { RealServer, RealServerOperation, VirtualServer } from './types.ts'

/** Puts operations that add real servers to this virtual server, in key order, into the order in which they run. */
export type AdditionOrder = (server: VirtualServer, additions: RealServerOperation[]) => void

/** A rank of 32 bits and a place below this are together an exact number. */
const PLACES = 2 ** 21

/**
 * The order of one node: by a hash of its name, the virtual server and the endpoint, so it is the
 * same after a restart. Schedulers that hash keep key order, the same on every node.
 */
export function orderOfNode(nodeName: string): AdditionOrder {
  const node = hashOf(nodeName)
  return (server, additions) => {
    if (!mayDifferByNode(server.scheduler) || additions.length > PLACES) return
    const seed = mixed(node ^ mixed(hashOf(server.address) + server.port))
    const inKeyOrder = [...additions]
    // Numbers sort faster than objects: the rank, then the place in key order.
    const ranks = new Float64Array(additions.length)
    for (const [index, { realServer }] of inKeyOrder.entries()) ranks[index] = rankOf(seed, realServer) * PLACES + index
    for (const [place, rank] of ranks.sort().entries()) {
      const op = inKeyOrder[rank % PLACES]
      if (op !== undefined) additions[place] = op
    }
  }
}

function rankOf(seed: number, { address, port }: RealServer): number {
  return mixed(seed ^ mixed(hashOf(address) + port))
}
