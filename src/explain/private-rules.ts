/**
 * The private table of one family as packets meet it: its chains by their hooks, and what its sets
 * have. The texts of elements are those that `nft list table` prints.
 */
import {
  CATCH_ALL,
  NFT_FAMILY,
  type NftAction,
  type NftChain,
  type NftElement,
  type NftHook,
  type NftItem,
  PRIVATE_TABLE,
  type PacketField,
} from '../nftables/types.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { SetQuestion } from './sets.ts'
import type { Hook } from './types.ts'

/** What a set has of a packet; `unknown`: the kernel's set, or what it has, is of a kind that this program never writes. */
export type FoundElement =
  | { readonly kind: 'found'; readonly value: string; readonly action: NftAction | undefined }
  | { readonly kind: 'none' | 'unknown' }

/** A chain that the kernel calls at a hook. */
export type BaseChain = NftChain & { readonly hook: NftHook }

export class PrivateRules {
  readonly family: IpFamily
  readonly #chains = new Map<string, NftChain>()
  readonly #baseChains: BaseChain[] = []
  /** Elements of each set by their values; undefined where they are not read. */
  readonly #sets = new Map<string, Map<string, NftElement> | undefined>()
  #isDormant = false

  constructor(family: IpFamily, items: Iterable<NftItem> = []) {
    this.family = family
    for (const item of items) this.add(item)
  }

  /** Adds an item of the table; a set before its elements. Those of the other family are none of it. */
  add(item: NftItem): void {
    if (item.family !== this.family) return
    switch (item.kind) {
      case 'table':
        this.#isDormant = item.isForeign === true
        return
      case 'set':
        this.#sets.set(item.name, item.isForeign === true ? undefined : new Map())
        return
      case 'element':
        this.#sets.get(item.set)?.set(item.value, item)
        return
      case 'chain': {
        this.#chains.set(item.name, item)
        const { hook } = item
        if (hook !== undefined) this.#baseChains.push({ ...item, hook })
      }
    }
  }

  /** `ip kube-ipvs`, as nft names it. */
  get name(): string {
    return `${NFT_FAMILY[this.family]} ${PRIVATE_TABLE}`
  }

  /** Chains whose hook or policy is not understood. */
  get foreignChains(): readonly string[] {
    return Array.from(this.#chains.values()).flatMap(({ isForeign, name }) => (isForeign === true ? [name] : []))
  }

  chain(name: string): NftChain | undefined {
    return this.#chains.get(name)
  }

  /** The chains of a type that the kernel calls at a hook; none of a dormant table. */
  at(hook: Hook, type: NftHook['type']): readonly BaseChain[] {
    if (this.#isDormant) return []
    const name = hook.toLowerCase()
    return this.#baseChains.filter((chain) => chain.hook.hook === name && chain.hook.type === type)
  }

  /** What a set or map has of a packet. */
  find(set: string, fields: readonly PacketField[], packet: SetQuestion): FoundElement {
    const elements = this.#sets.get(set)
    if (elements === undefined) return { kind: 'unknown' }
    const values = fields.map((field) => valueOf(field, packet))
    const own = values.includes(undefined) ? undefined : elements.get(values.join(' . '))
    const element = own ?? elements.get(CATCH_ALL)
    if (element?.isForeign === true) return { kind: 'unknown' }
    return element === undefined ? { kind: 'none' } : { kind: 'found', value: element.value, action: element.action }
  }
}

/** As elements have it; undefined: a value that no element of ours has. */
function valueOf(field: PacketField, { source, destination, protocol, port }: SetQuestion): string | undefined {
  switch (field) {
    case 'saddr':
      return source
    case 'daddr':
      return destination
    // Sets have places of Services only, and a ping has no port.
    case 'l4proto':
      return protocol === 'icmp' ? undefined : protocol
    case 'dport':
      return protocol === 'icmp' || port === undefined ? undefined : String(port)
  }
}
