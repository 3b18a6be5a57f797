/**
 * Joins the ports of a Service with the endpoints of its slices, by port name and protocol: a TCP port gets nothing from a UDP port
 * of a slice that has the same name. The result does not depend on the order in which slices arrived.
 */
import { familyOf } from '../values/address.ts'
import type { IpFamily, Protocol } from '../values/protocol.ts'
import type { EndpointSlice, SliceEndpoint } from './objects.ts'

/** An address and port that can answer for a Service port. */
export interface Endpoint {
  readonly address: string
  /** Target port, 1-65535. */
  readonly port: number
  /** Conditions, node and hints: the slice's own value, shared by all ports of the slice. */
  readonly source: SliceEndpoint
}

/** One port of a slice. */
interface SlicePortNumber {
  readonly slice: EndpointSlice
  readonly port: number
}

/** The slices of one Service by family, protocol and port name. Made once for all ports of the Service. */
export type SliceIndex = ReadonlyMap<string, readonly SlicePortNumber[]>

const NONE: readonly Endpoint[] = []

function indexKey(family: IpFamily, protocol: Protocol, portName: string): string {
  return `${family}/${protocol}/${portName}`
}

/** Indexes the slices of one Service. Their order does not matter. */
export function indexSlices(slices: readonly EndpointSlice[]): SliceIndex {
  const sorted =
    slices.length < 2 ? slices : slices.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
  const index = new Map<string, SlicePortNumber[]>()
  for (const slice of sorted) {
    for (const { name, protocol, port } of slice.ports) {
      const key = indexKey(slice.family, protocol, name)
      const list = index.get(key)
      if (list === undefined) index.set(key, [{ slice, port }])
      else list.push({ slice, port })
    }
  }
  return index
}

/**
 * Which of two entries for one ip:port counts, lower first: one that does not terminate (as in kube-proxy), then one that is ready,
 * then one on this node. Of entries with the same rank the one in the slice with the first name counts.
 */
function rank(endpoint: SliceEndpoint, nodeName: string): number {
  return (endpoint.terminating ? 4 : 0) + (endpoint.ready ? 0 : 2) + (isLocalTo(endpoint, nodeName) ? 0 : 1)
}

/** Whether the slice says that the endpoint runs on the node of that name; false when the name is ''. */
export function isLocalTo(endpoint: SliceEndpoint, nodeName: string): boolean {
  return endpoint.nodeName === nodeName && nodeName !== ''
}

/** Orders by the text of the address, then by port, like compareRealServers in `src/ipvs`. */
function compareEndpoints(a: Endpoint, b: Endpoint): number {
  if (a.address !== b.address) return a.address < b.address ? -1 : 1
  return a.port - b.port
}

/**
 * All endpoints of one Service port and family, used or not: each ip:port once, sorted by address text and port. An
 * endpoint whose address is of another family than its slice does not count.
 */
export function endpointsOf(
  index: SliceIndex,
  family: IpFamily,
  protocol: Protocol,
  portName: string,
  nodeName: string,
): readonly Endpoint[] {
  const found = index.get(indexKey(family, protocol, portName))
  return found === undefined ? NONE : endpointsIn(found, family, nodeName)
}

function endpointsIn(ports: readonly SlicePortNumber[], family: IpFamily, nodeName: string): readonly Endpoint[] {
  const all: Endpoint[] = []
  for (const { slice, port } of ports) {
    for (const source of slice.endpoints) {
      if (familyOf(source.address) === family) all.push({ address: source.address, port, source })
    }
  }
  if (all.length === 0) return NONE
  // The sort is stable: entries for one ip:port become neighbours in the order of their slices.
  return withoutRepeats(all.sort(compareEndpoints), nodeName)
}

/** Removes repeated entries in place: of neighbours with one ip:port only the one that ranks first stays. */
function withoutRepeats(sorted: Endpoint[], nodeName: string): readonly Endpoint[] {
  let length = 0
  for (const endpoint of sorted) {
    const before = length === 0 ? undefined : sorted[length - 1]
    if (before === undefined || compareEndpoints(before, endpoint) !== 0) sorted[length++] = endpoint
    else if (rank(endpoint.source, nodeName) < rank(before.source, nodeName)) sorted[length - 1] = endpoint
  }
  sorted.length = length
  return sorted
}

/**
 * The number that a health check of this node reports: distinct addresses of ready endpoints on it, over all ports of the slices
 * (kube-proxy's LocalReadyEndpoints). An endpoint that terminates is not ready, so a node that only drains fails its check.
 */
export function localReadyEndpoints(index: SliceIndex, family: IpFamily, nodeName: string): number {
  const addresses = new Set<string>()
  for (const list of index.values()) {
    if (list[0]?.slice.family !== family) continue
    for (const { address, source } of endpointsIn(list, family, nodeName))
      if (source.ready && isLocalTo(source, nodeName)) addresses.add(address)
  }
  return addresses.size
}
