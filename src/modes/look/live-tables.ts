/**
 * What the kernel has in the tables of Services, whichever mode wrote it, for a comparison with
 * what is wanted.
 */
import type { ItemsOfServices, ServiceTable, Wanted } from '../../explain/wanted.ts'
import type { Connections } from '../../ipvs/drains.ts'
import { sortedRealServers } from '../../ipvs/table.ts'
import {
  type RealServerKey,
  realServerKey,
  type VirtualServer,
  virtualServerKey,
  type VirtualServerKey,
} from '../../ipvs/types.ts'
import type { PlanRow } from '../../sync/plan.ts'
import type { Look, RulesSeen, VirtualIpsSeen } from './look.ts'
import { type LiveTable, recordOf, type Seen, SERVICE_TABLE_NAMES } from './service-tables.ts'
import { allVirtualServers, realServersOf } from './virtual-servers.ts'

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
  /** Virtual servers are those that were asked for; a table is absent when it was not read. */
  readonly tables: { readonly [Table in ServiceTable]?: LiveTable<ItemsOfServices[Table]> | undefined }
  readonly uses: ReadonlyMap<VirtualServerKey, VirtualServerUse>
  readonly hasIpvs: boolean
  /** The rules as they were read. */
  readonly rules: Omit<RulesSeen, 'choice'>
  readonly virtualIps: VirtualIpsSeen
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
    tables: await tablesOf(look, { servers, virtualIps, rules }, signal),
    uses,
    hasIpvs,
    rules,
    virtualIps,
  }
}

async function tablesOf(look: Look, seen: Seen, signal: AbortSignal): Promise<Live['tables']> {
  const tables: [ServiceTable, unknown][] = []
  for (const name of SERVICE_TABLE_NAMES) tables.push([name, await recordOf(name).read(look, seen, signal)])
  return Object.fromEntries(tables) as Live['tables'] // one of each name
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
