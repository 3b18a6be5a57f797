/**
 * The source ranges of Services: a chain for each Service with ranges and family, and an element
 * for each of its load-balancer addresses and ports, which leads there. A chain changes only with
 * the ranges and the addresses, however many ports the Service has.
 */
import { type NftChain, type NftElement, nftKey } from '../../../nftables/types.ts'
import type { AddressFrontend, FrontendKey } from '../../../service/frontends.ts'
import { sameSourceRanges, type SourceRanges } from '../../../service/source-ranges.ts'
import { formatCidr } from '../../../values/cidr.ts'
import type { IpFamily } from '../../../values/protocol.ts'
import { placeOf } from './elements.ts'
import { RANGES, rangesChain } from './layout.ts'

/** An item that is now wanted, or (undefined) no longer wanted. */
export interface RangesChange {
  readonly key: string
  readonly item: NftChain | NftElement | undefined
}

/** What a frontend with ranges has. */
export interface RangesUse {
  readonly chain: ServiceRanges
  readonly element: NftElement
  /** The key of `element`. */
  readonly elementKey: string
}

/** The chain of one Service and family. */
export interface ServiceRanges {
  readonly family: IpFamily
  readonly name: string
  readonly key: string
  firewall: SourceRanges
  /** How many frontends have each address. */
  readonly addresses: Map<string, number>
  /** Those that lead to it, by their keys. */
  readonly elements: Map<string, NftElement>
}

export class RangeChains {
  readonly #uses = new Map<FrontendKey, RangesUse & { readonly address: string }>()
  readonly #chains = new Map<string, ServiceRanges>()

  /**
   * Replaces, adds or removes a frontend. A chain precedes the elements that lead to it; what is
   * removed is removed in the reverse order.
   */
  set(key: FrontendKey, frontend: AddressFrontend | undefined): readonly RangesChange[] {
    const before = this.#uses.get(key)
    const firewall = frontend?.firewall
    if (frontend === undefined || firewall === undefined) return before === undefined ? [] : this.#remove(key, before)
    const { address, servicePort } = frontend
    const { family, service } = servicePort
    const name = `${RANGES}${service.namespace}/${service.name}`
    if (before?.chain.name === name) return this.#update(before.chain, firewall)
    // The element is the same, but leads to another chain.
    const left = before === undefined ? [] : this.#leave(key, before)
    const element: NftElement = {
      kind: 'element',
      family,
      set: 'source-ranges',
      value: placeOf(frontend),
      action: { kind: 'jump', chain: name },
    }
    const elementKey = nftKey(element)
    const { chain, changes } = this.#join(family, name, address, firewall)
    chain.elements.set(elementKey, element)
    this.#uses.set(key, { chain, element, elementKey, address })
    return [...left, ...changes, { key: elementKey, item: element }]
  }

  /** undefined: the frontend has no ranges. */
  of(key: FrontendKey): RangesUse | undefined {
    return this.#uses.get(key)
  }

  /** The elements that lead to a chain, by their keys. */
  elementsOf(chainKey: string): ReadonlyMap<string, NftElement> | undefined {
    return this.#chains.get(chainKey)?.elements
  }

  #join(
    family: IpFamily,
    name: string,
    address: string,
    firewall: SourceRanges,
  ): { readonly chain: ServiceRanges; readonly changes: readonly RangesChange[] } {
    const key = nftKey({ kind: 'chain', family, name, rules: [] })
    const known = this.#chains.get(key)
    const chain = known ?? { family, name, key, firewall, addresses: new Map<string, number>(), elements: new Map() }
    this.#chains.set(key, chain)
    const count = chain.addresses.get(address) ?? 0
    chain.addresses.set(address, count + 1)
    const isOther = !sameSourceRanges(chain.firewall, firewall)
    chain.firewall = firewall
    const hasChanged = known === undefined || isOther || (firewall.allowsNode && count === 0)
    return { chain, changes: hasChanged ? [changeOf(chain)] : [] }
  }

  #remove(key: FrontendKey, use: RangesUse & { readonly address: string }): readonly RangesChange[] {
    return [...this.#leave(key, use), { key: use.elementKey, item: undefined }]
  }

  #leave(key: FrontendKey, use: RangesUse & { readonly address: string }): readonly RangesChange[] {
    const { chain, address, elementKey } = use
    this.#uses.delete(key)
    chain.elements.delete(elementKey)
    const count = (chain.addresses.get(address) ?? 1) - 1
    if (count > 0) chain.addresses.set(address, count)
    else chain.addresses.delete(address)
    if (chain.addresses.size > 0) return count === 0 && chain.firewall.allowsNode ? [changeOf(chain)] : []
    this.#chains.delete(chain.key)
    return [{ key: chain.key, item: undefined }]
  }

  #update(chain: ServiceRanges, firewall: SourceRanges): readonly RangesChange[] {
    const isSame = sameSourceRanges(chain.firewall, firewall)
    chain.firewall = firewall
    return isSame ? [] : [changeOf(chain)]
  }
}

/** The node itself may connect from the address that it connects to. */
function changeOf({ family, name, key, firewall, addresses }: ServiceRanges): RangesChange {
  const own = firewall.allowsNode ? addresses.keys() : []
  return { key, item: rangesChain(family, name, [...firewall.ranges.map(formatCidr), ...own]) }
}

const OF_RANGES = [`chain ${RANGES}`, 'element source-ranges ']

/** Whether the key is of the source ranges of a Service. Each key of the tables is asked for. */
export function isOfRanges(key: string): boolean {
  const from = key.indexOf(' ') + 1
  return OF_RANGES.some((start) => key.startsWith(start, from))
}
