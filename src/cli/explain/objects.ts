/**
 * The rows of a Service, compared with what is there: one entry for each virtual server, address,
 * set entry, chain and rule, with what it means for traffic when it is missing or too much, and the
 * commands that a pass would run.
 */
import { excessMeans, type ItemsOfServices, type ServiceTable, type Wanted } from '../../explain/wanted.ts'
import { definitionOf, type SetRole } from '../../ipset/catalogue.ts'
import { roleOf } from '../../ipset/render.ts'
import { entryKey, type SetEntry } from '../../ipset/types.ts'
import { sameRealServer } from '../../ipvs/diff.ts'
import { isDraining } from '../../ipvs/drains.ts'
import { settingsInWords } from '../../ipvs/text.ts'
import { realServerKey, type VirtualServer } from '../../ipvs/types.ts'
import { type Live, rowOfWanted, type VirtualServerUse } from '../../modes/look/live-tables.ts'
import {
  entriesAt,
  type LiveTable,
  meansOf,
  placeOf,
  recordOf,
  SERVICE_TABLE_NAMES,
  SERVICE_TABLES,
} from '../../modes/look/service-tables.ts'
import { type FrontendKey, parseFrontendKey } from '../../service/frontends.ts'
import type { PlanRow } from '../../sync/plan.ts'
import type { Protocol } from '../../values/protocol.ts'
import type { ExplainedObject, ExplainedRealServer, ObjectState } from './object-types.ts'
import { compareRule, extraRules, type PortOfChains } from './rule-objects.ts'

/**
 * @param ports the ports of the Service whose rows these are
 * @param frontends those that it has won
 * @param isWhole false: rows were left out, so what is in no row may be wanted all the same
 */
export function compareObjects(
  wanted: readonly Wanted[],
  live: Live,
  ports: readonly PortOfChains[],
  frontends: readonly { readonly key: FrontendKey; readonly isNodePort: boolean }[],
  isWhole: boolean,
): readonly ExplainedObject[] {
  const compared = wanted.map((one) => compareOne(one, live))
  if (!isWhole) return compared
  // In iptables mode nothing is wanted of the sets, and what is in them has no effect.
  const usesSets = wanted.some(({ table }) => table === 'virtual-servers')
  const own = new Set(wanted.flatMap(({ table, key }) => (table === 'set-entries' ? [key] : [])))
  return [
    ...compared,
    ...(usesSets ? frontends.flatMap((frontend) => extraEntries(frontend, own, live)) : []),
    ...(usesSets ? extraElements(frontends, wanted, live) : []),
    ...wanted.flatMap((one) => extraAddresses(one, live)),
    ...(wanted.some(({ item }) => 'rules' in item) ? ports.flatMap((port) => extraOfPort(port, wanted, live)) : []),
  ]
}

function extraOfPort(port: PortOfChains, wanted: readonly Wanted[], live: Live): readonly ExplainedObject[] {
  const { chains, rules } = extraRules(port, wanted, live)
  return [...chains.map((row) => extraObject(row, live, 'it has no effect unless a rule jumps to it')), ...rules]
}

function compareOne(wanted: Wanted, live: Live): ExplainedObject {
  const isOfChains = wanted.table === 'chains-IPv4' || wanted.table === 'chains-IPv6'
  if (isOfChains && wanted.isPart === true) return compareRule(wanted.table, wanted.item, live)
  const row = rowOfWanted(wanted, live)
  const state = row === undefined ? 'unknown' : shownState(row)
  const virtualServer = wanted.table === 'virtual-servers' ? describedIn(live, wanted.key, wanted.item) : undefined
  return {
    ...placeIn(wanted),
    state,
    means:
      state === 'present'
        ? ''
        : state === 'differs' && virtualServer !== undefined
          ? differenceOf(virtualServer.realServers)
          : meansOf(state, wanted, live),
    commands: commandsIn(row),
    ...(virtualServer === undefined ? {} : { virtualServer }),
    ...('rules' in wanted.item ? { rules: wanted.item.rules } : {}),
  }
}

/** What drains is as it should be. */
function shownState({ state }: PlanRow): ObjectState {
  return state === 'draining' ? 'present' : state
}

function commandsIn(row: PlanRow | undefined): readonly string[] {
  return (row?.operations ?? []).map(({ command }) => command)
}

/** What an operator would look for, and where. */
function placeIn(row: Wanted): Pick<ExplainedObject, 'kind' | 'frontend' | 'name' | 'place'> {
  const { kind } = SERVICE_TABLES[row.table]
  const [frontend, name] = 'rules' in row.item ? [null, row.item.chain] : [row.neededBy, nameOf(row)]
  return { kind, frontend, name, place: placeOf(row) }
}

/** The key of an entry or element of a set begins with its place. */
function nameOf({ key, item }: Wanted): string {
  if ('entry' in item) return item.entry
  return 'value' in item ? item.value : key
}

function differenceOf(realServers: readonly ExplainedRealServer[]): string {
  const keys = (state: ExplainedRealServer['state']): string => {
    const found = realServers.filter((server) => server.state === state).map(({ key }) => key)
    return found.length > 3 ? `${found.length} endpoints` : found.join(', ')
  }
  const [missing, extra, differs] = [keys('missing'), keys('extra'), keys('differs')]
  const parts = [
    ...(missing === '' ? [] : [`${missing} should get traffic and does not`]),
    ...(extra === '' ? [] : [`${extra} gets traffic and should not`]),
    ...(differs === '' ? [] : [`${differs} has another weight or limit than it should have`]),
  ]
  return parts.length === 0
    ? 'it has another scheduler, other flags or another timeout than it should have'
    : parts.join('; ')
}

/** A virtual server as it is in the kernel, or as it should be. @param wanted undefined: what is wanted is not known */
function describedIn(
  { tables, uses }: Pick<Live, 'tables' | 'uses'>,
  key: FrontendKey,
  wanted: VirtualServer | undefined,
): ExplainedObject['virtualServer'] {
  const live = tables['virtual-servers']?.items.get(key)
  const server = live ?? wanted
  return server && describe(server, live, uses.get(key), wanted)
}

function describe(
  server: VirtualServer,
  live: VirtualServer | undefined,
  use: VirtualServerUse | undefined,
  wanted: VirtualServer | undefined,
): NonNullable<ExplainedObject['virtualServer']> {
  const wantedServers = new Map((wanted?.realServers ?? []).map((one) => [realServerKey(one), one]))
  const there = new Map((live?.realServers ?? []).map((one) => [realServerKey(one), one]))
  const stateOf = (key: string): ExplainedRealServer['state'] => {
    const [want, has] = [wantedServers.get(key), there.get(key)]
    if (has === undefined) return 'missing'
    if (want === undefined && isDraining(server.protocol, has)) return 'draining'
    if (wanted === undefined) return 'unknown'
    if (want === undefined) return 'extra'
    return !sameRealServer(want, has) ? 'differs' : want.weight === 0 ? 'suspect' : 'present'
  }
  return {
    ...settingsInWords(server),
    traffic: use?.traffic ?? null,
    realServers: Array.from(new Map([...wantedServers, ...there]), ([key, shown]): ExplainedRealServer => {
      const connections = use?.connections.get(key)
      return {
        key,
        weight: shown.weight,
        forwarding: shown.forwarding,
        activeConnections: connections?.active ?? null,
        inactiveConnections: connections?.inactive ?? null,
        maxConnections: shown.upperThreshold,
        state: stateOf(key),
      }
    }),
  }
}

/** An item that nothing wants. */
function extraObject(row: Wanted, live: Live, means: string): ExplainedObject {
  const table: LiveTable<unknown> | undefined = live.tables[row.table]
  const commands = commandsIn(table?.row(row.key, undefined))
  return { ...placeIn(row), state: 'extra', means, commands, ...('rules' in row.item ? { rules: row.item.rules } : {}) }
}

/** Sets that hold node ports of policy Local, by protocol. */
const LOCAL_NODE_PORTS: { readonly [protocol in Protocol]?: SetRole } = {
  tcp: 'NODE-PORT-LOCAL-TCP',
  udp: 'NODE-PORT-LOCAL-UDP',
}

/** Entries for the address and port of a frontend that it does not need. */
function extraEntries(
  { key, isNodePort }: { readonly key: FrontendKey; readonly isNodePort: boolean },
  own: ReadonlySet<string>,
  live: Live,
): readonly ExplainedObject[] {
  const { address, port, protocol } = parseFrontendKey(key)
  const localNodePorts = isNodePort ? LOCAL_NODE_PORTS[protocol] : undefined
  const entries: ReadonlyMap<string, SetEntry> = live.tables['set-entries']?.items ?? new Map<string, SetEntry>()
  const ofPort = entriesAt(entries, String(port)).filter(({ set }) => definitionOf(set)?.role === localNodePorts)
  return [
    ...entriesAt(entries, `${address},${protocol}:${port}`),
    ...(localNodePorts === undefined ? [] : ofPort),
  ].flatMap((item) => {
    const role = roleOf(item.set)
    const row = { table: 'set-entries', key: entryKey(item), neededBy: key, item } as const
    return role === undefined || own.has(row.key) ? [] : [extraObject(row, live, excessMeans(role))]
  })
}

/**
 * Elements of the private table for the address and port of a frontend that it does not need. One
 * that stands for every value is named once, at the first frontend.
 */
function extraElements(
  frontends: readonly { readonly key: FrontendKey }[],
  wanted: readonly Wanted[],
  live: Live,
): readonly ExplainedObject[] {
  const known = new Set(wanted.flatMap(({ table, key }) => (table === 'nftables' ? [key] : [])))
  return frontends.flatMap((frontend) =>
    rowsAt(frontend.key, 'nftables', live).flatMap((row) => {
      if (known.has(row.key)) return []
      known.add(row.key)
      return [extraObject(row, live, meansOf('extra', row, live))]
    }),
  )
}

const IN_TWO_WAYS = 'this node answers for the address in two ways; it leaves the one that is not configured'

/** The address of a route that is also on kube-ipvs0, and the reverse. */
function extraAddresses({ table, key, neededBy }: Wanted, live: Live): readonly ExplainedObject[] {
  const route = table === 'addresses' ? live.tables.routes?.items.get(key) : undefined
  if (route !== undefined) return [extraObject({ table: 'routes', key, neededBy, item: route }, live, IN_TWO_WAYS)]
  const address = table === 'routes' ? live.tables.addresses?.items.get(key) : undefined
  return address === undefined
    ? []
    : [extraObject({ table: 'addresses', key, neededBy, item: address }, live, IN_TWO_WAYS)]
}

/** What is at a frontend, when nothing tells what is wanted there. */
export function objectsAt(key: FrontendKey, live: Live): readonly ExplainedObject[] {
  const rows = SERVICE_TABLE_NAMES.flatMap((table) => rowsAt(key, table, live))
  const virtualServer = describedIn(live, key, undefined)
  return rows.map((row) => ({
    ...placeIn(row),
    state: 'unknown',
    means: '',
    commands: [],
    ...(row.table === 'virtual-servers' && virtualServer !== undefined ? { virtualServer } : {}),
  }))
}

function rowsAt<Table extends ServiceTable>(neededBy: FrontendKey, table: Table, { tables }: Live): Wanted[] {
  const items: ReadonlyMap<string, ItemsOfServices[Table]> | undefined = tables[table]?.items
  const keys = items === undefined ? [] : (recordOf(table).at?.(neededBy, items) ?? [])
  return keys.flatMap((key) => {
    const item = items?.get(key)
    return item === undefined ? [] : [{ table, key, neededBy, item } as Wanted] // as the table has it
  })
}
