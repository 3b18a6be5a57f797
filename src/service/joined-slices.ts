/**
 * The endpoints of the ports of one Service, joined from its slices by port name and protocol: a
 * TCP port gets nothing from a UDP port of a slice that has the same name. The result does not
 * depend on the order in which slices arrived. A Service may have thousands of ports and slices, so
 * each slice is sorted once, ports with the same slices and numbers share one list, and all work is
 * in portions.
 */
import { familyOf } from '../values/address.ts'
import type { Budget, Work } from '../values/budget.ts'
import { compareText } from '../values/lists.ts'
import { mergeSorted, PORTION, sortInPortions } from '../values/merge.ts'
import type { IpFamily, Protocol } from '../values/protocol.ts'
import { compareEndpoints, type Endpoint, isLocalTo } from './endpoints.ts'
import type { EndpointSlice, SliceEndpoint } from './objects.ts'

/** One port of a slice. */
interface SlicePortNumber {
  readonly slice: EndpointSlice
  /** The place of the slice among the slices of the Service. */
  readonly place: number
  readonly port: number
}

/** Where a port of the Service gets its endpoints from; ports with the same slices and numbers share it. */
export class PortSources {
  /** In the order of the names of slices. */
  readonly all: SlicePortNumber[] = []
  /** Entries of all slices, used or not. */
  entries = 0
  add(slice: EndpointSlice, place: number, port: number): void {
    this.all.push({ slice, place, port })
    this.entries += slice.endpoints.length
  }
}

const NONE: readonly Endpoint[] = []

export class JoinedSlices {
  readonly #nodeName: string
  /** In the order of their names. */
  readonly #slices: readonly EndpointSlice[]
  readonly #ports = new Map<string, PortSources>()
  /** Sources by their slices and numbers; only with several ports. */
  #shared: Map<string, PortSources> | undefined
  readonly #sorted = new Map<EndpointSlice, readonly SliceEndpoint[]>()

  /** @param slices in the order of their names */
  private constructor(slices: readonly EndpointSlice[], nodeName: string) {
    this.#slices = slices
    this.#nodeName = nodeName
  }

  /** Joins the slices of one Service, in any order. */
  static *of(slices: readonly EndpointSlice[], nodeName: string, budget: Budget): Work<JoinedSlices> {
    const joined = new JoinedSlices(yield* sortInPortions(slices, byName, budget), nodeName)
    for (const [place, slice] of joined.#slices.entries())
      for (const { name, protocol, port } of slice.ports) {
        joined.#sourcesAt(portKey(slice.family, protocol, name)).add(slice, place, port)
        if (budget.spentBySteps()) yield
      }
    return joined
  }

  #sourcesAt(key: string): PortSources {
    const known = this.#ports.get(key)
    if (known !== undefined) return known
    const sources = new PortSources()
    this.#ports.set(key, sources)
    return sources
  }

  /** How many entries the slices have for a port, used or not. */
  entriesOf(family: IpFamily, protocol: Protocol, portName: string): number {
    return this.#ports.get(portKey(family, protocol, portName))?.entries ?? 0
  }

  /** The sources of a port; undefined when no slice has it. */
  sourcesOf(family: IpFamily, protocol: Protocol, portName: string): PortSources | undefined {
    const own = this.#ports.get(portKey(family, protocol, portName))
    // The only port of a Service shares no work with others.
    if (own === undefined || this.#ports.size === 1) return own
    const places = own.all.map(({ place, port }) => `${place}:${port}`).join()
    this.#shared ??= new Map()
    const known = this.#shared.get(places)
    if (known !== undefined) return known
    this.#shared.set(places, own)
    return own
  }

  /**
   * All endpoints of a port, used or not: each ip:port once, sorted by address text and port. An
   * endpoint whose address is of another family than its slice does not count.
   */
  *endpoints({ all }: PortSources, budget: Budget): Work<readonly Endpoint[]> {
    const lists: Endpoint[][] = []
    for (const group of smallGroups(all)) {
      const own: Endpoint[] = []
      for (const { slice, port } of group)
        for (const source of this.#sort(slice)) own.push({ address: source.address, port, source })
      // Sorting several sorted lists only merges them.
      lists.push(group.length === 1 ? own : own.sort(compareEndpoints))
      if (budget.spent()) yield
    }
    return this.#withoutRepeats(yield* mergeSorted(lists, compareEndpoints, budget))
  }

  /** The endpoints of a slice that are of its family, by address; of one address in their order. */
  #sort(slice: EndpointSlice): readonly SliceEndpoint[] {
    const known = this.#sorted.get(slice)
    if (known !== undefined) return known
    const sorted = slice.endpoints
      .filter(({ address }) => familyOf(address) === slice.family)
      .sort((a, b) => compareText(a.address, b.address))
    this.#sorted.set(slice, sorted)
    return sorted
  }

  /**
   * Without repeats: of neighbours with one ip:port, which are in the order of their slices, only
   * the one that ranks first stays. Changes the list.
   */
  #withoutRepeats(sorted: Endpoint[]): readonly Endpoint[] {
    let length = 0
    for (const endpoint of sorted) {
      const before = length === 0 ? undefined : sorted[length - 1]
      if (before === undefined || compareEndpoints(before, endpoint) !== 0) sorted[length++] = endpoint
      else if (rank(endpoint.source, this.#nodeName) < rank(before.source, this.#nodeName))
        sorted[length - 1] = endpoint
    }
    // A copy has no room for more (see `present` in src/values/lists.ts).
    return length === 0 ? NONE : sorted.slice(0, length)
  }

  /**
   * The number that a health check of this node reports: distinct addresses of ready endpoints on
   * it, over all slices with ports (kube-proxy's LocalReadyEndpoints). An endpoint that terminates
   * is not ready, so a node that only drains fails its check. An address that is ready while it
   * terminates counts unless another slice knows it otherwise.
   */
  *localReadyEndpoints(family: IpFamily, budget: Budget): Work<number> {
    const isReadyHere = (endpoint: SliceEndpoint): boolean =>
      endpoint.ready && isLocalTo(endpoint, this.#nodeName) && familyOf(endpoint.address) === family
    const ready = new Set<string>()
    const terminating = new Set<string>()
    for (const { endpoints } of this.#withPorts(family)) {
      for (const endpoint of endpoints)
        if (isReadyHere(endpoint)) (endpoint.terminating ? terminating : ready).add(endpoint.address)
      if (budget.spent()) yield
    }
    if (terminating.size === 0) return ready.size
    for (const { endpoints } of this.#withPorts(family)) {
      for (const endpoint of endpoints)
        if (!endpoint.terminating && !isReadyHere(endpoint)) terminating.delete(endpoint.address)
      if (budget.spent()) yield
    }
    for (const address of ready) terminating.delete(address)
    return ready.size + terminating.size
  }

  #withPorts(family: IpFamily): readonly EndpointSlice[] {
    return this.#slices.filter((slice) => slice.family === family && slice.ports.length > 0)
  }
}

/** Cuts sources into groups, each with PORTION entries at most or of one slice. */
function* smallGroups(all: readonly SlicePortNumber[]): Generator<readonly SlicePortNumber[], void, void> {
  let group: SlicePortNumber[] = []
  let entries = 0
  for (const one of all) {
    entries += one.slice.endpoints.length
    if (entries > PORTION && group.length > 0) {
      yield group
      group = []
      entries = one.slice.endpoints.length
    }
    group.push(one)
  }
  if (group.length > 0) yield group
}

function byName(a: EndpointSlice, b: EndpointSlice): number {
  return compareText(a.name, b.name)
}

function portKey(family: IpFamily, protocol: Protocol, portName: string): string {
  return `${family}/${protocol}/${portName}`
}

/**
 * Which of two entries for one ip:port counts, lower first: one that does not terminate (as in
 * kube-proxy), then one that is ready, then one on this node. Of entries with the same rank the one
 * in the slice with the first name counts.
 */
function rank(endpoint: SliceEndpoint, nodeName: string): number {
  return (endpoint.terminating ? 4 : 0) + (endpoint.ready ? 0 : 2) + (isLocalTo(endpoint, nodeName) ? 0 : 1)
}
