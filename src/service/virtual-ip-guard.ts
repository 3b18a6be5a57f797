/**
 * Keeps the rule of virtual-ips.ts for this node while the addresses that it protects change, and
 * tells those who use it.
 */
import { isLinkLocal, isLoopback } from '../values/address.ts'
import { type Cidr, formatCidr, parseCidrs } from '../values/cidr.ts'
import { sameList } from '../values/lists.ts'
import type { EndpointSlice, ObjectChange, Service } from './objects.ts'
import type { VirtualIpRule } from './virtual-ips.ts'

/** Addresses of one owner. */
interface Entry {
  readonly addresses: readonly string[]
  readonly owner: string
  /** Ports of the API server at these addresses. Absent: they are not the API server's. */
  readonly ports?: readonly number[]
}

const API_SERVER = 'the API server'
const CLUSTER_DNS = 'the resolvers of this cluster'

/** Only objects in these namespaces can change the rule. This check runs for every change. */
const WATCHED_NAMESPACES = /^(?:default|kube-system)\//

/** Other hosts that are remembered: those of the largest clusters, several times over. */
const MAX_HOSTS = 65_536

export class VirtualIpGuard {
  /** By the object of the cluster that has the addresses, or by the name that was passed. */
  readonly #entries = new Map<string, Entry>()
  readonly #ranges = new Map<string, readonly Cidr[]>()
  readonly #listeners = new Set<() => void>()
  #rule: VirtualIpRule

  /** @param lists absent ones allow everything */
  constructor(lists: Partial<Pick<VirtualIpRule, 'externalIps' | 'loadBalancerIps'>>, allowsProtected: boolean) {
    const { externalIps, loadBalancerIps } = lists
    this.#rule = {
      externalIps,
      loadBalancerIps,
      protected: allowsProtected ? undefined : new Map(),
      protectedRanges: [],
      apiServer: new Map(),
      hosts: new Set(),
    }
  }

  get rule(): VirtualIpRule {
    return this.#rule
  }

  /** Calls `listener` after each change of the rule, until the returned function is called. */
  follow(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Replaces the addresses of one owner. */
  protect(owner: string, addresses: readonly string[]): void {
    this.#set(owner, addresses.length === 0 ? undefined : { owner, addresses })
  }

  /** Replaces the ranges of one owner, as texts. A range that contains every address says nothing, and is left out. */
  protectRanges(owner: string, texts: readonly string[]): void {
    const ranges = parseCidrs(texts).filter(({ prefixLength }) => prefixLength > 0)
    const before = this.#ranges.get(owner) ?? []
    if (sameList(before.map(formatCidr), ranges.map(formatCidr))) return
    this.#ranges.set(owner, ranges)
    this.#change({
      protectedRanges: Array.from(this.#ranges, ([name, all]) => all.map((range) => ({ range, owner: name }))).flat(),
    })
  }

  /**
   * Replaces the addresses at which this node reaches the API server: `what` is the API server
   * itself, or a proxy in front of it, and `source` says how they are known.
   */
  protectApiServer(source: string, addresses: readonly string[], port: number, what = API_SERVER): void {
    const entry = { owner: what, addresses, ports: [port] }
    this.#set(`API server ${source}`, addresses.length === 0 ? undefined : entry)
  }

  /**
   * Adds addresses of other hosts. They stay while this object lives: a route that is gone for a
   * moment must not let a Service take the address of its gateway, because then it would never come
   * back.
   */
  addHosts(addresses: Iterable<string>): void {
    const { hosts } = this.#rule
    const found = new Set(hosts)
    for (const address of addresses)
      if (found.size < MAX_HOSTS && !isLoopback(address) && !isLinkLocal(address)) found.add(address)
    if (found.size > hosts.size) this.#change({ hosts: found })
  }

  /** Takes in one change of an object. */
  apply(change: ObjectChange): void {
    if (WATCHED_NAMESPACES.test(change.key)) this.#set(`${change.kind} ${change.key}`, protectedByObject(change))
  }

  #set(key: string, entry: Entry | undefined): void {
    const before = this.#entries.get(key)
    if (sameEntry(before, entry)) return
    if (entry === undefined) this.#entries.delete(key)
    else this.#entries.set(key, entry)
    const all = new Map<string, string>()
    const apiServer = new Map<string, Set<number>>()
    for (const { addresses, owner, ports } of this.#entries.values())
      for (const address of addresses) {
        all.set(address, owner)
        if (ports === undefined) continue
        const known = apiServer.get(address) ?? new Set()
        for (const port of ports) known.add(port)
        apiServer.set(address, known)
      }
    this.#change({ protected: this.#rule.protected === undefined ? undefined : all, apiServer })
  }

  #change(fields: Partial<VirtualIpRule>): void {
    this.#rule = { ...this.#rule, ...fields }
    for (const listener of this.#listeners) listener()
  }
}

const NO_PORTS: readonly number[] = []

function sameEntry(a: Entry | undefined, b: Entry | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  return sameList(a.addresses, b.addresses) && sameList(a.ports ?? NO_PORTS, b.ports ?? NO_PORTS)
}

function protectedByObject(change: ObjectChange): Entry | undefined {
  if (change.value === undefined) return undefined
  switch (change.kind) {
    case 'services':
      return ofService(change.value)
    case 'endpointslices':
      return ofSlice(change.value)
    case 'nodes':
      return undefined
  }
}

function ofService({ namespace, name, ports, clusterIps }: Service): Entry | undefined {
  const addresses = Object.values(clusterIps)
  if (namespace === 'default' && name === 'kubernetes')
    return { addresses, owner: API_SERVER, ports: ports.map(({ port }) => port) }
  const isDns = namespace === 'kube-system' && ports.some(({ port }) => port === 53)
  return isDns ? { addresses, owner: CLUSTER_DNS } : undefined
}

/**
 * Only the slice that the API server itself writes, found by its name: if the label decided, every
 * user who can write slices in that namespace could make us refuse any address.
 */
function ofSlice({ namespace, name, endpoints, ports }: EndpointSlice): Entry | undefined {
  if (namespace !== 'default' || name !== 'kubernetes') return undefined
  return {
    addresses: endpoints.map(({ address }) => address),
    owner: API_SERVER,
    ports: ports.map(({ port }) => port),
  }
}
