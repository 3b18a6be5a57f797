/**
 * The source ranges of Services in the kernel. An element follows the chain that it leads to; while
 * the kernel refuses that chain, the element drops all packets instead, because an address that was
 * served before it got ranges would permit every client.
 */
import { type NftItem, type NftOperation, nftKey } from '../../../nftables/types.ts'
import type { AddressFrontend, FrontendKey } from '../../../service/frontends.ts'
import type { TableSync } from '../../../sync/table-sync.ts'
import { isOfRanges, RangeChains, type RangesUse } from './range-chains.ts'

export class PlacedRanges {
  readonly #sync: TableSync<NftItem, NftOperation>
  readonly #ranges = new RangeChains()

  constructor(sync: TableSync<NftItem, NftOperation>) {
    this.#sync = sync
  }

  /** Replaces, adds or removes a frontend. */
  frontend(key: FrontendKey, frontend: AddressFrontend | undefined): void {
    for (const { key: itemKey, item } of this.#ranges.set(key, frontend))
      this.#sync.want(itemKey, item && this.#orClosed(item))
  }

  /** undefined: the frontend has no ranges. */
  of(key: FrontendKey): RangesUse | undefined {
    return this.#ranges.of(key)
  }

  /** Whether the kernel has the source ranges of a frontend; undefined: it has none. */
  areThere(key: FrontendKey): boolean | undefined {
    const ranges = this.#ranges.of(key)
    return ranges && this.#isThere(ranges.chain.key) && this.#isThere(ranges.elementKey)
  }

  /** An element cannot precede the chain that it leads to. */
  mayAdd(item: NftItem): boolean {
    const chain = chainOf(item)
    return chain === undefined || this.#sync.live(chain) !== undefined
  }

  /** An item was written or examined. Returns whether it is of source ranges. */
  examined(key: string): boolean {
    if (!isOfRanges(key)) return false
    // Elements that had to wait for their chain, or drop without it.
    for (const [elementKey, element] of this.#ranges.elementsOf(key) ?? []) {
      const wanted = this.#orClosed(element)
      const desired = this.#sync.desired(elementKey)
      const isWanted = desired !== undefined && this.#sync.kind.equal(wanted, desired)
      if (!isWanted || this.#sync.live(elementKey) === undefined) this.#sync.want(elementKey, wanted)
    }
    return true
  }

  /** Whether the kernel has what is wanted at the key. */
  #isThere(key: string): boolean {
    const live = this.#sync.live(key)
    return live !== undefined && live === this.#sync.desired(key)
  }

  /** The item, but an element whose chain was refused drops. */
  #orClosed(item: NftItem): NftItem {
    const chain = chainOf(item)
    const isRefused = chain !== undefined && this.#sync.live(chain) === undefined && this.#sync.failures.has(chain)
    return isRefused && item.kind === 'element' ? { ...item, action: { kind: 'drop' } } : item
  }
}

/** The key of the chain that an element leads to. */
function chainOf(item: NftItem): string | undefined {
  const action = item.kind === 'element' ? item.action : undefined
  if (action === undefined || !('chain' in action)) return undefined
  return nftKey({ kind: 'chain', family: item.family, name: action.chain, rules: [] })
}
