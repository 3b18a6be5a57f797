/**
 * Joins the ports of a Service with the endpoints of its slices.
 * What could break: the result must not depend on the order in which slices arrived, and the key of the join is port name
 * and protocol together: a TCP port gets nothing from a UDP slice port of the same name.
 */
import { familyOf, formatEndpoint } from '../values/address.ts'
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

/**
 * All endpoints of one Service port and family, used or not: each ip:port once, sorted by its text. An endpoint whose
 * address is of another family than its slice does not count.
 */
export function endpointsOf(
  offers: EndpointOffers,
  family: IpFamily,
  protocol: Protocol,
  portName: string,
  nodeName: string,
): readonly Endpoint[] {
  const found = offers.get(offerKey(family, protocol, portName))
  if (found === undefined) return NONE
  const chosen = new Map<string, Endpoint>()
  for (const { slice, port } of found) {
    for (const source of slice.endpoints) {
      if (familyOf(source.address) !== family) continue
      const text = formatEndpoint(source.address, port)
      const before = chosen.get(text)
      if (before !== undefined && rank(before.source, nodeName) <= rank(source, nodeName)) continue
      chosen.set(text, { address: source.address, port, source })
    }
  }
  if (chosen.size === 0) return NONE
  return Array.from(chosen)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, endpoint]) => endpoint)
}
