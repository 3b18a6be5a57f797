/**
 * What the kernel has in the tables of Services, whichever mode wrote it, for a comparison with
 * what is wanted. A table of a mechanism that the kernel does not have is empty.
 */
import { SET_ENTRIES } from '../../ipset/diff.ts'
import { EntryTable } from '../../ipset/tables.ts'
import type { SetEntry } from '../../ipset/types.ts'
import { chainKind } from '../../iptables/diff.ts'
import { chainKey } from '../../iptables/layout.ts'
import type { SavedTables } from '../../iptables/save-text.ts'
import type { Chain, IptablesOperation, TableId } from '../../iptables/types.ts'
import { ADDRESSES } from '../../ipvs/address-diff.ts'
import { AddressTable } from '../../ipvs/addresses.ts'
import { VIRTUAL_SERVERS } from '../../ipvs/diff.ts'
import type { Connections } from '../../ipvs/drains.ts'
import { ROUTES } from '../../ipvs/route-diff.ts'
import { sortedRealServers } from '../../ipvs/table.ts'
import {
  type RealServerKey,
  realServerKey,
  type VirtualServer,
  virtualServerKey,
  type VirtualServerKey,
} from '../../ipvs/types.ts'
import { type PlanRow, type RowKind, rowOf } from '../../sync/plan.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { modesIn, onlyMode, type ProxyMode } from '../modes-in-kernel.ts'
import type { ItemsOfServices, ServiceTable, Wanted } from '../../explain/wanted.ts'
import type { Look, RulesSeen, VirtualIpsSeen } from './look.ts'
import { allVirtualServers, realServersOf } from './virtual-servers.ts'

export interface LiveTable<Item> {
  readonly items: ReadonlyMap<string, Item>
  /** The row of a plan that wants this of the key; undefined: there is no such item, and none is wanted. */
  row(key: string, wanted: Item | undefined): PlanRow | undefined
}

/** Since the virtual server was added. */
export interface VirtualServerTraffic {
  readonly connections: number
  readonly packetsIn: number
  readonly packetsOut: number
  readonly bytesIn: number
  readonly bytesOut: number
}

/** How a virtual server is used: by real server the connections of this moment. */
export interface VirtualServerUse {
  readonly connections: ReadonlyMap<RealServerKey, Connections>
  readonly traffic: VirtualServerTraffic
}

export interface Live {
  /** Virtual servers are those that were asked for; chains of a family are absent when they were not read. */
  readonly tables: { readonly [Table in ServiceTable]: LiveTable<ItemsOfServices[Table]> | undefined }
  readonly uses: ReadonlyMap<VirtualServerKey, VirtualServerUse>
  readonly hasIpvs: boolean
  /** The rules as they were read. */
  readonly rules: Omit<RulesSeen, 'choice'>
  /** The mode whose items these are; null: of none, or of both. */
  readonly mode: ProxyMode | null
}

export interface LiveOptions {
  /** Which virtual servers to read. */
  readonly isWanted: (key: VirtualServerKey) => boolean
  /** Whether rules are of interest. */
  readonly readsRules: boolean
  readonly signal: AbortSignal
}

const NO_RULES: Live['rules'] = { saved: {}, unread: undefined }

/** Rejects when the kernel cannot be read (EPERM). */
export async function readLive(look: Look, options: LiveOptions): Promise<Live> {
  const { signal, readsRules } = options
  const { servers, uses, hasIpvs } = await readVirtualServers(look, options)
  const virtualIps = await look.virtualIps(signal)
  const rules = readsRules ? await look.rules(signal) : NO_RULES
  return {
    tables: await tablesOf(look, servers, virtualIps, rules, signal),
    uses,
    hasIpvs,
    rules,
    mode: onlyMode(modesIn({ ...virtualIps, ...rules })),
  }
}

async function tablesOf(
  look: Look,
  servers: ReadonlyMap<VirtualServerKey, VirtualServer>,
  { routes }: VirtualIpsSeen,
  { saved }: Live['rules'],
  signal: AbortSignal,
): Promise<Live['tables']> {
  const { rtnetlink, families } = look
  const ipset = await look.ipset(signal)
  const entries = ipset && new EntryTable(ipset, { families, onSetLost: () => undefined, onGrown: () => undefined })
  return {
    'virtual-servers': liveTable(VIRTUAL_SERVERS, servers),
    addresses: liveTable(ADDRESSES, await new AddressTable(rtnetlink).list('all', signal)),
    routes: liveTable(ROUTES, routes),
    'set-entries': liveTable(SET_ENTRIES, (await entries?.list('all', signal)) ?? new Map<string, SetEntry>()),
    'chains-IPv4': chainsIn('IPv4', saved.IPv4),
    'chains-IPv6': chainsIn('IPv6', saved.IPv6),
  }
}

export function liveTable<Item, Op>(kind: RowKind<Item, Op>, items: ReadonlyMap<string, Item>): LiveTable<Item> {
  return { items, row: (key, wanted) => rowOf(kind, key, wanted, items.get(key)) }
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

/** The row of a plan for a wanted item; undefined: its table was not read. */
export function rowOfWanted<Table extends ServiceTable>(wanted: Wanted<Table>, { tables }: Live): PlanRow | undefined {
  const table: Live['tables'][Table] = tables[wanted.table]
  return table?.row(wanted.key, wanted.item)
}

const NO_TRAFFIC: VirtualServerTraffic = { connections: 0, packetsIn: 0, packetsOut: 0, bytesIn: 0, bytesOut: 0 }

async function readVirtualServers(look: Look, { isWanted, signal }: LiveOptions) {
  const servers = new Map<VirtualServerKey, VirtualServer>()
  const uses = new Map<VirtualServerKey, VirtualServerUse>()
  const ipvs = await look.ipvs(signal)
  if (ipvs === undefined) return { servers, uses, hasIpvs: false }
  const ids = (await allVirtualServers(ipvs, signal)).filter((id) => isWanted(virtualServerKey(id)))
  for await (const { id, destinations } of realServersOf(ipvs, ids, signal)) {
    const key = virtualServerKey(id)
    servers.set(key, { ...id, realServers: sortedRealServers(destinations) })
    const connections = new Map(
      destinations.map(({ realServer, activeConnections: active, inactiveConnections: inactive }) => [
        realServerKey(realServer),
        { active, inactive },
      ]),
    )
    uses.set(key, { connections, traffic: NO_TRAFFIC })
  }
  await ipvs.visitTraffic(
    (key, [connections = 0, packetsIn = 0, packetsOut = 0, bytesIn = 0, bytesOut = 0]) => {
      const use = uses.get(key)
      if (use !== undefined)
        uses.set(key, { ...use, traffic: { connections, packetsIn, packetsOut, bytesIn, bytesOut } })
    },
    { signal },
  )
  return { servers, uses, hasIpvs: true }
}
