/**
 * Which externalIPs and load-balancer addresses a Service may have on this node (CVE-2020-8554): with them anyone who may
 * write a Service can draw the node's own traffic to other addresses to himself.
 * What could break: without a rule nothing is looked at; with one an address must be in the ranges, and must be none that
 * the node itself lives by.
 */
import { type Cidr, contains } from '../values/cidr.ts'
import type { ProblemList } from '../values/problem-list.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { EndpointSlice, ObjectChange, Service } from './objects.ts'

/** What an address must keep to; made anew only when something in it changes. */
export interface VirtualIpRule {
  /** kubeIPVS.allowedVirtualIPs */
  readonly allowed: readonly Cidr[]
  /** Addresses that no Service may take, and whose they are: `the API server`. */
  readonly kept: ReadonlyMap<string, string>
}

/** What of the NodeContext takes part. */
interface Node {
  readonly virtualIps?: VirtualIpRule
  readonly localAddresses: ReadonlySet<string>
  readonly nodeIps: { readonly [family in IpFamily]?: string }
}

/** Those of a Service's addresses that the rule of this node permits; the others are reported under `field`. */
export function permittedAddresses(
  service: Service,
  field: string,
  addresses: readonly string[],
  node: Node,
  problems: ProblemList,
): readonly string[] {
  const rule = node.virtualIps
  if (rule === undefined || addresses.length === 0) return addresses
  return addresses.filter((address) => {
    const reason = refusalOf(address, rule, node)
    if (reason === undefined) return true
    const subject = `service ${service.namespace}/${service.name}`
    problems.add({ code: 'virtual-ip-refused', subject, field, message: `${address} is refused: ${reason}` })
    return false
  })
}

function refusalOf(address: string, { allowed, kept }: VirtualIpRule, node: Node): string | undefined {
  const owner = kept.get(address)
  if (owner !== undefined) return `it is an address of ${owner}`
  if (node.localAddresses.has(address) || Object.values(node.nodeIps).includes(address))
    return 'it is an address of this node'
  return allowed.some((range) => contains(range, address)) ? undefined : 'kubeIPVS.allowedVirtualIPs does not allow it'
}

const API_SERVER = 'the API server'
const RESOLVER = 'the resolvers of this cluster'

/** Namespaces whose objects are looked at; every change comes by here. */
const MATTERS = /^(?:default|kube-system)\//

/** Follows the addresses that no Service may take: those of the start, and what the cluster says of API server and DNS. */
export class KeptAddresses {
  readonly #allowed: readonly Cidr[]
  readonly #fixed: ReadonlyMap<string, string>
  /** By object: the addresses it stands for. */
  readonly #ofObjects = new Map<string, { readonly addresses: readonly string[]; readonly owner: string }>()
  #rule: VirtualIpRule

  /** `fixed`: addresses that are known at the start, and whose they are. */
  constructor(allowed: readonly Cidr[], fixed: ReadonlyMap<string, string>) {
    this.#allowed = allowed
    this.#fixed = fixed
    this.#rule = { allowed, kept: fixed }
  }

  get rule(): VirtualIpRule {
    return this.#rule
  }

  /** Whether the rule is another one now. */
  apply(change: ObjectChange): boolean {
    if (!MATTERS.test(change.key)) return false
    const stands = keptBy(change)
    const key = `${change.kind} ${change.key}`
    const before = this.#ofObjects.get(key)
    if (stands === undefined) {
      if (before === undefined) return false
      this.#ofObjects.delete(key)
    } else {
      if (before !== undefined && sameList(before.addresses, stands.addresses)) return false
      this.#ofObjects.set(key, stands)
    }
    const kept = new Map(this.#fixed)
    for (const { addresses, owner } of this.#ofObjects.values())
      for (const address of addresses) kept.set(address, owner)
    this.#rule = { allowed: this.#allowed, kept }
    return true
  }
}

function keptBy(change: ObjectChange): { readonly addresses: readonly string[]; readonly owner: string } | undefined {
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

function ofService({ namespace, name, ports, clusterIps }: Service) {
  const addresses = Object.values(clusterIps)
  if (namespace === 'default' && name === 'kubernetes') return { addresses, owner: API_SERVER }
  const isDns = namespace === 'kube-system' && ports.some(({ port }) => port === 53)
  return isDns ? { addresses, owner: RESOLVER } : undefined
}

function ofSlice({ namespace, serviceName, endpoints }: EndpointSlice) {
  const isApiServer = namespace === 'default' && serviceName === 'kubernetes'
  return isApiServer ? { addresses: endpoints.map(({ address }) => address), owner: API_SERVER } : undefined
}

function sameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((address, index) => address === b[index])
}
