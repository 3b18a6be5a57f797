/** The private tables in memory: what the kernel refuses is refused here too. */
import { isDeepStrictEqual } from 'node:util'
import { type NftItem, type NftOperation, nftKey } from '../../../../src/nftables/types.ts'
import type { TableKind } from '../../../../src/sync/table.ts'
import { MemoryTable } from '../../../support/memory-table.ts'

const same = (a: NftItem, b: NftItem): boolean =>
  a.kind === 'table' && b.kind === 'table' ? a.isOwned === b.isOwned : isDeepStrictEqual(a, b)

export const KIND: TableKind<NftItem, NftOperation> = {
  name: 'nftables',
  key: ({ item }) => nftKey(item),
  equal: same,
  diff(_, desired, live) {
    if (desired === undefined) return live === undefined ? [] : [{ kind: 'delete', item: live }]
    if (live === undefined) return [{ kind: 'add', item: desired }]
    return same(desired, live) ? [] : [{ kind: 'replace', item: desired }]
  },
  step: (_, { kind, item }) => (kind === 'delete' ? undefined : item),
  direction: ({ kind }) => (kind === 'delete' ? 'remove' : 'add'),
  text: ({ kind, item }) => `${kind} ${nftKey(item)}`,
}

/** What an item names: it must be there. */
function namedBy(item: NftItem): readonly string[] {
  const { family } = item
  const table = nftKey({ kind: 'table', family, isOwned: false })
  const chain = (name: string): string => nftKey({ kind: 'chain', family, name, rules: [] })
  const set = (name: string): string => nftKey({ kind: 'set', family, name, fields: [], isMap: false })
  switch (item.kind) {
    case 'table':
      return []
    case 'set':
      return [table]
    case 'element':
      return [set(item.set), ...(item.action !== undefined && 'chain' in item.action ? [chain(item.action.chain)] : [])]
    case 'chain':
      return [
        table,
        ...item.rules.flatMap(({ statements }) =>
          statements.flatMap((one) => {
            if (one.kind === 'lookup') return [set(one.set)]
            if (one.kind === 'verdict-map') return [set(one.map)]
            return one.kind === 'verdict' && 'chain' in one.action ? [chain(one.action.chain)] : []
          }),
        ),
      ]
  }
}

export class MemoryNft extends MemoryTable<NftItem, NftOperation> {
  /** While another process has the tables. */
  isTaken = false

  constructor() {
    super(KIND, {
      refuse: ({ kind, item }) => {
        if (this.isTaken) return new Error('EPERM')
        if (kind !== 'delete')
          return namedBy(item).every((key) => this.kernel.has(key)) ? undefined : new Error('ENOENT')
        const key = nftKey(item)
        const user = Array.from(this.kernel.values()).find((other) => namedBy(other).includes(key))
        return user === undefined ? undefined : new Error(`EBUSY: ${nftKey(user)} names ${key}`)
      },
    })
  }

  override async list(keys: readonly string[] | 'all'): Promise<Map<string, NftItem>> {
    const found = await super.list(keys)
    if (!this.isTaken) return found
    return new Map(
      Array.from(found, ([key, item]) => [
        key,
        item.kind === 'table' ? { ...item, isOwned: false, takenBy: 77 } : item,
      ]),
    )
  }

  /** `nft flush ruleset` */
  flush(): void {
    this.kernel.clear()
  }
}
