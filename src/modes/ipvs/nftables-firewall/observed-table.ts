/** An io of the private tables that tells of each reading to whom they belong. */
import { NFT_FAMILY, type NftItem, type NftOperation, type PrivateTable } from '../../../nftables/types.ts'
import type { TableIo } from '../../../sync/table.ts'
import { IP_FAMILIES, type IpFamily } from '../../../values/protocol.ts'

type Tables = TableIo<NftItem, NftOperation>

/** The same table; `onTable` is called for each private table that is read, or that is not there. */
export function observed(io: Tables, onTable: (family: IpFamily, table: PrivateTable | undefined) => void): Tables {
  return {
    kind: io.kind,
    async list(keys, signal) {
      const found = await io.list(keys, signal)
      for (const family of IP_FAMILIES) {
        const key = NFT_FAMILY[family]
        const item = found.get(key)
        if (keys === 'all' || keys.includes(key)) onTable(family, item?.kind === 'table' ? item : undefined)
      }
      return found
    },
    apply: (ops, signal) => io.apply(ops, signal),
  }
}
