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
  if (sameItem(desired, live)) return []
  return [{ kind: 'replace', item: desired, ...(losesHook(desired, live) ? { hadHook: true } : {}) }]
}

function losesHook(desired: NftItem, live: NftItem): boolean {
  if (desired.kind !== 'chain' || live.kind !== 'chain' || desired.hook !== undefined) return false
  return live.hook !== undefined || live.isForeign === true
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
