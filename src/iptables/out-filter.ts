/**
 * VIPs of load balancers that the node itself must not reach: their source ranges leave out the node's own address.
 * Traffic from the node to such a VIP has the VIP as its source and would pass the firewall (kubernetes issue 119656).
 * What could break: a range of length 0 switches off all ranges of its family, as in kube-proxy since 1.36.
 */
import type { Frontend, FrontendKey } from '../service/frontends.ts'
import type { NodeIps } from '../service/node-context.ts'
import { allowsNode, sourceRangesOf } from '../service/source-ranges.ts'
import type { IpFamily, Protocol } from '../values/protocol.ts'

/** One address, port and protocol that the node must not reach. */
export interface OutFilterVip {
  readonly address: string
  readonly port: number
  readonly protocol: Protocol
}

/** Whether traffic from the node itself to this frontend is to be dropped. An unknown node address is in no range. */
export function isClosedToNode(frontend: Frontend, nodeIps: NodeIps): boolean {
  if (frontend.kind !== 'LoadBalancerVip') return false
  const ranges = sourceRangesOf(frontend.service, frontend.family)
  return ranges.length > 0 && !allowsNode(ranges, nodeIps)
}

/** Follows the frontends that may be closed to the node, so that a change of the node's addresses finds them again. */
export class OutFilterVips {
  readonly #candidates = new Map<FrontendKey, Frontend>()

  /** Takes a frontend in or out; true when the answer of `of` may be another one now. */
  set(key: FrontendKey, frontend: Frontend | undefined): boolean {
    const isCandidate = frontend?.kind === 'LoadBalancerVip' && frontend.service.sourceRanges.length > 0
    if (isCandidate) this.#candidates.set(key, frontend)
    else return this.#candidates.delete(key)
    return true
  }

  of(family: IpFamily, nodeIps: NodeIps): readonly OutFilterVip[] {
    const closed: OutFilterVip[] = []
    for (const frontend of this.#candidates.values())
      if (frontend.family === family && isClosedToNode(frontend, nodeIps)) closed.push(frontend)
    return closed
  }
}
