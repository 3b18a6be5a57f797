/**
 * The tables in which Services have items, one record for each: how it is read from the kernel, and
 * what `explain` says of its items. A table of a mechanism that the kernel does not have is empty.
 */
import {
  absenceMeans,
  excessMeans,
  type ItemsOfServices,
  type ServiceTable,
  type Wanted,
} from '../../explain/wanted.ts'
import { definitionOf } from '../../ipset/catalogue.ts'
import { SET_ENTRIES } from '../../ipset/diff.ts'
import { roleOf } from '../../ipset/render.ts'
import { EntryTable } from '../../ipset/tables.ts'
import { entryKey, type SetEntry } from '../../ipset/types.ts'
import { chainKind } from '../../iptables/diff.ts'
import { chainKey } from '../../iptables/layout.ts'
import type { SavedTables } from '../../iptables/save-text.ts'
import type { Chain, IptablesOperation, TableId } from '../../iptables/types.ts'
import { ADDRESSES } from '../../ipvs/address-diff.ts'
import { AddressTable } from '../../ipvs/addresses.ts'
import { VIRTUAL_SERVERS } from '../../ipvs/diff.ts'
import { ROUTES } from '../../ipvs/route-diff.ts'
import type { VirtualServer, VirtualServerKey } from '../../ipvs/types.ts'
import { NFT_TABLE } from '../../nftables/kind.ts'
import {
  CATCH_ALL,
  NFT_FAMILY,
  type NftElement,
  nftKey,
  type NftOperation,
  PRIVATE_TABLE,
} from '../../nftables/types.ts'
import { type FrontendKey, parseFrontendKey } from '../../service/frontends.ts'
import { type PlanRow, type RowKind, rowOf } from '../../sync/plan.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { type NftSetName, ROLE_OF_SET, SET_NAMES } from '../ipvs/nftables-firewall/layout.ts'
import type { Look, RulesSeen, VirtualIpsSeen } from './look.ts'
import { visitPrivateItems } from './private-items.ts'

export interface LiveTable<Item> {
  readonly items: ReadonlyMap<string, Item>
  /** The row of a plan that wants this of the key; undefined: there is no such item, and none is wanted. */
  row(key: string, wanted: Item | undefined): PlanRow | undefined
}

/** What is read once, for several tables or for more than its table. */
export interface Seen {
  readonly servers: ReadonlyMap<VirtualServerKey, VirtualServer>
  readonly virtualIps: VirtualIpsSeen
  readonly rules: Omit<RulesSeen, 'choice'>
}

/** An item that is not as wanted; `unknown`: its table was not read. */
export type WrongState = 'missing' | 'differs' | 'extra' | 'unknown'

export interface TableOfServices<Item> {
  /** An item in `--output json`, and in the text. */
  readonly kind: string
  readonly label: string
  /** undefined: it cannot be read. */
  read(look: Look, seen: Seen, signal: AbortSignal): Promise<LiveTable<Item> | undefined>
  /** Where an operator would look for an item; '' where the kind says it. */
  place(item: Item): string
  /** The words between an item and its place. */
  readonly where?: 'in' | 'on' | 'in the'
  /** What follows for traffic. */
  means(state: WrongState, item: Item, kernel: { readonly hasIpvs: boolean }): string
  /** The keys of items that serve a frontend, whatever is wanted. Absent: nothing but what is wanted tells. */
  at?(frontend: FrontendKey, items: ReadonlyMap<string, Item>): readonly string[]
}

export const RULES_UNREAD = 'the rules of this family could not be read'

const meansOfAddress = (state: WrongState): string =>
  state === 'differs'
    ? 'this node answers for the address, but not in the way that the daemon wants'
    : 'this node does not answer for the address: packets to it leave the node or have no route'

const addressOf = (frontend: FrontendKey): readonly string[] => [parseFrontendKey(frontend).address]

const chainsOf = (family: IpFamily) =>
  ({
    kind: 'chain',
    label: 'chain',
    read: async (_, { rules }) => chainsIn(family, rules.saved[family]),
    place: ({ table }) => table,
    means: (state) => {
      if (state === 'unknown') return RULES_UNREAD
      return state === 'missing'
        ? 'connections that rules send to this chain are not served'
        : 'connections are treated by other rules than the daemon wants'
    },
  }) as const satisfies TableOfServices<Chain>

type Records = { readonly [Table in ServiceTable]: TableOfServices<ItemsOfServices[Table]> }

export const SERVICE_TABLES = {
  'virtual-servers': {
    kind: 'virtual-server',
    label: 'virtual server',
    read: async (_, { servers }) => liveTable(VIRTUAL_SERVERS, servers),
    place: () => '',
    means: (_state, _item, { hasIpvs }) =>
      hasIpvs
        ? 'nothing answers at this address and port: connections are refused or time out'
        : 'the kernel has no IPVS: nothing answers at this address and port',
    at: (frontend) => [frontend],
  },
  addresses: {
    kind: 'address',
    label: 'address',
    read: async ({ rtnetlink }, _, signal) =>
      liveTable(ADDRESSES, await new AddressTable(rtnetlink).list('all', signal)),
    place: () => 'kube-ipvs0',
    where: 'on',
    means: meansOfAddress,
    at: addressOf,
  },
  routes: {
    kind: 'route',
    label: 'local route',
    read: async (_, { virtualIps }) => liveTable(ROUTES, virtualIps.routes),
    place: () => 'table local',
    where: 'in the',
    means: meansOfAddress,
    at: addressOf,
  },
  'set-entries': {
    kind: 'set-entry',
    label: 'set entry',
    read: async (look, _, signal) => {
      const ipset = await look.ipset(signal)
      if (ipset === undefined) return liveTable(SET_ENTRIES, new Map())
      const hooks = { families: look.families, onSetLost: () => undefined, onGrown: () => undefined }
      return liveTable(SET_ENTRIES, await new EntryTable(ipset, hooks).list('all', signal))
    },
    place: ({ set }) => set,
    where: 'in',
    means: (_, { set }) => {
      const role = roleOf(set)
      return role === undefined ? '' : absenceMeans(role)
    },
    at: (frontend, items) => {
      const { address, port, protocol } = parseFrontendKey(frontend)
      return entriesAt(items, `${address},${protocol}:${port}`).map(entryKey)
    },
  },
  nftables: {
    kind: 'nft-element',
    label: 'set element',
    read: async ({ families }, _, signal) =>
      liveTable<NftElement, NftOperation>(ELEMENTS, await readElements(families, signal)),
    place: ({ family, set }) => `table ${NFT_FAMILY[family]} ${PRIVATE_TABLE}, set ${set}`,
    where: 'in',
    means: (state, { set }) => {
      const role = isSetName(set) ? ROLE_OF_SET[set] : undefined
      if (role === undefined) return ''
      return state === 'extra' ? excessMeans(role) : absenceMeans(role)
    },
    at: (frontend, items) => {
      const { family, address, port, protocol } = parseFrontendKey(frontend)
      const values = [`${address} . ${protocol} . ${port}`, CATCH_ALL]
      const keys = SET_NAMES.flatMap((set) => values.map((value) => nftKey({ kind: 'element', family, set, value })))
      return keys.filter((key) => items.has(key))
    },
  },
  'chains-IPv4': chainsOf('IPv4'),
  'chains-IPv6': chainsOf('IPv6'),
} as const satisfies Records

const RECORDS: Records = SERVICE_TABLES

/** The names of the tables. */
export const SERVICE_TABLE_NAMES = Object.keys(SERVICE_TABLES) as ServiceTable[] // its own keys

export function recordOf<Table extends ServiceTable>(table: Table): Records[Table] {
  return RECORDS[table]
}

/** What an operator would look for, and where. */
export function placeOf<Table extends ServiceTable>({ table, item }: Wanted<Table>): string {
  const record: Records[Table] = RECORDS[table]
  return record.place(item)
}

/** What follows for traffic when the kernel does not have this as wanted. */
export function meansOf<Table extends ServiceTable>(
  state: WrongState,
  { table, item }: Wanted<Table>,
  kernel: { readonly hasIpvs: boolean },
): string {
  const record: Records[Table] = RECORDS[table]
  return record.means(state, item, kernel)
}

export function liveTable<Item, Op>(kind: RowKind<Item, Op>, items: ReadonlyMap<string, Item>): LiveTable<Item> {
  return { items, row: (key, wanted) => rowOf(kind, key, wanted, items.get(key)) }
}

/** Of the private tables only elements are rows of Services. */
const ELEMENTS: RowKind<NftElement, NftOperation> = NFT_TABLE

const isSetName = (name: string): name is NftSetName => Object.hasOwn(ROLE_OF_SET, name)

/** The elements of the private tables; none where the kernel has no nf_tables. */
async function readElements(
  families: readonly IpFamily[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, NftElement>> {
  const found = new Map<string, NftElement>()
  await visitPrivateItems(
    families,
    (item) => {
      if (item.kind === 'element') found.set(nftKey(item), item)
    },
    signal,
  )
  return found
}

/** All chains of a family, also those of others. */
export function chainsIn(family: IpFamily, saved: SavedTables | undefined): LiveTable<Chain> | undefined {
  if (saved === undefined) return undefined
  const items = new Map<string, Chain>()
  for (const table of ['nat', 'filter', 'mangle'] as const satisfies readonly TableId[])
    for (const [chain, rules] of saved.get(table) ?? [])
      items.set(chainKey(table, chain), { kind: 'chain', table, chain, rules })
  return liveTable<Chain, IptablesOperation>(chainKind(family), items)
}

/** The entries of an address and port in every set but that of hairpin entries. @param here `10.96.0.1,tcp:80` */
export function entriesAt(entries: ReadonlyMap<string, SetEntry>, here: string): readonly SetEntry[] {
  let index = indexes.get(entries)
  if (index === undefined) indexes.set(entries, (index = indexOf(entries.values())))
  return index.get(here) ?? []
}

/** A Service may have thousands of frontends, and the sets have the entries of all Services. */
const indexes = new WeakMap<ReadonlyMap<string, SetEntry>, ReadonlyMap<string, readonly SetEntry[]>>()

function indexOf(entries: Iterable<SetEntry>): ReadonlyMap<string, readonly SetEntry[]> {
  const others = Array.from(entries).filter(({ set }) => definitionOf(set)?.role !== 'LOOP-BACK')
  return Map.groupBy(others, ({ entry }) => entry.split(',').slice(0, 2).join(','))
}
