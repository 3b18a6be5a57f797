/**
 * What differs between the wanted and the live private tables, as operations. Everything in them is
 * ours, so whatever nobody wants is deleted. Pure.
 */
import type { TableKind } from '../sync/table.ts'
import { operationText } from './item-text.ts'
import { sameItem } from './same-item.ts'
import { type NftItem, nftKey, type NftOperation } from './types.ts'

function diffItem(desired: NftItem | undefined, live: NftItem | undefined): readonly NftOperation[] {
  if (desired === undefined) return live === undefined ? [] : [{ kind: 'delete', item: live }]
  if (live === undefined) return [{ kind: 'add', item: desired }]
  return sameItem(desired, live) ? [] : [{ kind: 'replace', item: desired }]
}

/** Key: see nftKey. */
export const NFT_TABLE: TableKind<NftItem, NftOperation> = {
  name: 'nftables',
  key: ({ item }) => nftKey(item),
  diff: (_key, desired, live) => diffItem(desired, live),
  equal: sameItem,
  step: (_live, { kind, item }) => (kind === 'delete' ? undefined : item),
  direction: ({ kind }) => (kind === 'delete' ? 'remove' : 'add'),
  text: operationText,
}
