/**
 * Joins the ports of a Service with the endpoints of its slices.
 * What could break: the result must not depend on the order in which slices arrived, and the key of the join is port name
 * and protocol together: a TCP port gets nothing from a UDP slice port of the same name.
 */
import { familyOf } from '../values/address.ts'
import type { IpFamily, Protocol } from '../values/protocol.ts'
import type { EndpointSlice, SliceEndpoint } from './objects.ts'

/** One place that can answer for a Service port. */
export interface Endpoint {
  readonly address: string
  /** Target port, 1-65535. */
  readonly port: number
  /** Conditions, node and hints: the slice's own value, shared by all ports of the slice. */
  readonly source: SliceEndpoint
}

interface Offer {
  readonly slice: EndpointSlice
  readonly port: number
}

/** What the slices of one Service offer, by family, protocol and port name. Made once for all ports of the Service. */
export type EndpointOffers = ReadonlyMap<string, readonly Offer[]>

const NONE: readonly Endpoint[] = []

function offerKey(family: IpFamily, protocol: Protocol, portName: string): string {
  return `${family}/${protocol}/${portName}`
}

/** Indexes the slices of one Service. Their order does not matter. */
export function offersOf(slices: readonly EndpointSlice[]): EndpointOffers {
  const sorted =
    slices.length < 2 ? slices : slices.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
  const offers = new Map<string, Offer[]>()
  for (const slice of sorted) {
    for (const { name, protocol, port } of slice.ports) {
      const key = offerKey(slice.family, protocol, name)
      const list = offers.get(key)
      if (list === undefined) offers.set(key, [{ slice, port }])
      else list.push({ slice, port })
    }
  }
  return offers
}

/**
 * Which of two entries for one ip:port counts, lower first: one that does not terminate (as kube-proxy), then a ready
 * one, then one on this node. What is still equal goes by the slice's name, as the slices are visited in that order.
 */
function rank(endpoint: SliceEndpoint, nodeName: string): number {
  return (endpoint.terminating ? 4 : 0) + (endpoint.ready ? 0 : 2) + (isLocalTo(endpoint, nodeName) ? 0 : 1)
}

/** Whether the slice says that the endpoint runs on the node of that name. '' is no node. */
export function isLocalTo(endpoint: SliceEndpoint, nodeName: string): boolean {
  return endpoint.nodeName === nodeName && nodeName !== ''
}

/** By the text of the address, then by port: the order in which real servers are compared as well. */
function compareEndpoints(a: Endpoint, b: Endpoint): number {
  if (a.address !== b.address) return a.address < b.address ? -1 : 1
  return a.port - b.port
}

/**
 * All endpoints of one Service port and family, used or not: each ip:port once, sorted by address text and port. An
 * endpoint whose address is of another family than its slice does not count.
 */
export function endpointsOf(
  offers: EndpointOffers,
  family: IpFamily,
  protocol: Protocol,
  portName: string,
  nodeName: string,
): readonly Endpoint[] {
  const found = offers.get(offerKey(family, protocol, portName))
  return found === undefined ? NONE : endpointsIn(found, family, nodeName)
}

function endpointsIn(offers: readonly Offer[], family: IpFamily, nodeName: string): readonly Endpoint[] {
  const all: Endpoint[] = []
  for (const { slice, port } of offers) {
    for (const source of slice.endpoints) {
      if (familyOf(source.address) === family) all.push({ address: source.address, port, source })
    }
  }
  if (all.length === 0) return NONE
  // The sort is stable: entries for one ip:port become neighbours in the order of their slices.
  return withoutRepeats(all.sort(compareEndpoints), nodeName)
}

/** Of neighbours with one ip:port the one that ranks first stays. */
function withoutRepeats(sorted: Endpoint[], nodeName: string): readonly Endpoint[] {
  let kept = 0
  for (const endpoint of sorted) {
    const before = kept === 0 ? undefined : sorted[kept - 1]
    if (before === undefined || compareEndpoints(before, endpoint) !== 0) sorted[kept++] = endpoint
    else if (rank(endpoint.source, nodeName) < rank(before.source, nodeName)) sorted[kept - 1] = endpoint
  }
  sorted.length = kept
  return sorted
}

/**
 * What a health check of this node counts: distinct addresses of ready endpoints on it, over all ports of the slices
 * (kube-proxy's LocalReadyEndpoints). One that terminates is not ready, so a node that only drains fails its check.
 */
export function localReadyEndpoints(offers: EndpointOffers, family: IpFamily, nodeName: string): number {
  const addresses = new Set<string>()
  for (const list of offers.values()) {
    if (list[0]?.slice.family !== family) continue
    for (const { address, source } of endpointsIn(list, family, nodeName))
      if (source.ready && isLocalTo(source, nodeName)) addresses.add(address)
  }
  return addresses.size
}
