/**
 * The endpoints of one pod: those of EndpointSlices whose `targetRef` names it. The proxy itself
 * does not keep this field.
 */
import { formatEndpoint } from '../../values/address.ts'
import { addressOf, isObject } from './findings.ts'

export interface PodName {
  readonly namespace: string
  readonly name: string
}

export interface PodEndpoints {
  /** IPs, each once. */
  readonly addresses: readonly string[]
  /** `10.244.0.1:8080`, each once. */
  readonly endpoints: readonly string[]
}

/** A pod has an address or two, and may be in hundreds of Services. */
const MAX_FOUND = 10_000

/** Collects the endpoints of a pod from slices of any shape; what is no slice of its namespace is passed over. */
export class PodEndpointCollector {
  readonly #pod: PodName
  readonly #addresses = new Set<string>()
  readonly #endpoints = new Set<string>()

  constructor(pod: PodName) {
    this.#pod = pod
  }

  get found(): PodEndpoints {
    return { addresses: [...this.#addresses], endpoints: [...this.#endpoints] }
  }

  add(slice: unknown): void {
    if (!isObject(slice)) return
    const { metadata, ports, endpoints } = slice
    if (!isObject(metadata) || metadata['namespace'] !== this.#pod.namespace || !Array.isArray(endpoints)) return
    for (const endpoint of endpoints) {
      const address = isObject(endpoint) && this.#isPods(endpoint['targetRef']) ? firstAddress(endpoint) : undefined
      if (address === undefined || this.#endpoints.size >= MAX_FOUND) continue
      this.#addresses.add(address)
      for (const port of Array.isArray(ports) ? ports : []) {
        const number = isObject(port) ? port['port'] : undefined
        if (typeof number === 'number') this.#endpoints.add(formatEndpoint(address, number))
      }
    }
  }

  /** A reference without a namespace is to the namespace of the slice. */
  #isPods(target: unknown): boolean {
    if (!isObject(target)) return false
    const { kind, name, namespace } = target
    return kind === 'Pod' && name === this.#pod.name && (namespace ?? this.#pod.namespace) === this.#pod.namespace
  }
}

function firstAddress({ addresses }: { readonly [name: string]: unknown }): string | undefined {
  return Array.isArray(addresses) ? addressOf(addresses[0]) : undefined
}
