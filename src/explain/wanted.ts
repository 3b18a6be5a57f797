/** What a mode wants in the kernel for one Service: rows of its tables, with the frontend or Service port that needs each. */
import type { SetEntry } from '../ipset/types.ts'
import type { Chain } from '../iptables/types.ts'
import type { BoundAddress } from '../ipvs/address-diff.ts'
import type { LocalRoute } from '../ipvs/route-diff.ts'
import type { VirtualServer } from '../ipvs/types.ts'

/** The tables in which Services have items. */
export interface ItemsOfServices {
  'virtual-servers': VirtualServer
  addresses: BoundAddress
  routes: LocalRoute
  'set-entries': SetEntry
  'chains-IPv4': Chain
  'chains-IPv6': Chain
}

export type ServiceTable = keyof ItemsOfServices

/** A row of one of these tables. */
export type Wanted<Table extends ServiceTable = ServiceTable> = {
  [T in Table]: {
    readonly table: T
    readonly key: string
    /** The frontend (`10.96.0.1:80/tcp`), or for chains the Service port (`demo/web:http`). */
    readonly neededBy: string
    readonly item: ItemsOfServices[T]
    /** All Services share the chain, and the item has one rule of this Service port alone. */
    readonly isPart?: true | undefined
  }
}[Table]
