/** How many elements the kernel has of each set that is not empty. */
import type { SetSize } from '../../../metrics/sources.ts'
import { NFT_FAMILY, type NftItem, type NftOperation } from '../../../nftables/types.ts'
import type { TableSync } from '../../../sync/table-sync.ts'

/** No set has a limit of ours; the kernel counts the elements in 32 bits. */
const MAX_ELEMENTS = 2 ** 32 - 1

export function sizesOf(sync: Pick<TableSync<NftItem, NftOperation>, 'forEachLive'>): readonly SetSize[] {
  const sizes = new Map<string, number>()
  sync.forEachLive((item) => {
    if (item.kind !== 'element') return
    const name = `${NFT_FAMILY[item.family]} ${item.set}`
    sizes.set(name, (sizes.get(name) ?? 0) + 1)
  })
  return Array.from(sizes, ([name, entries]) => ({ name, entries, maxEntries: MAX_ELEMENTS }))
}
