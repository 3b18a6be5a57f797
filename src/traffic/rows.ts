/** The rows of `kube-ipvs top`: rates and connections of Services or of real servers, filtered, sorted and summed. */
import { addressOfKey } from '../ipvs/types.ts'
import { compareText } from '../values/lists.ts'
import {
  addTraffic,
  BYTES_IN,
  BYTES_OUT,
  CONNECTIONS,
  PACKETS_IN,
  PACKETS_OUT,
  type PlaceSample,
  type Rates,
  type RealServerSample,
  type Sample,
  type Traffic,
  unknownTraffic,
} from './sample.ts'

export const GROUPINGS = ['service', 'real-server'] as const
export type Grouping = (typeof GROUPINGS)[number]

export const SORT_KEYS = ['connections', 'packets', 'bytes', 'active', 'name'] as const
export type SortKey = (typeof SORT_KEYS)[number]

export interface TrafficFilter {
  readonly namespace?: string | undefined
  /** The name of a Service in the namespace. */
  readonly name?: string | undefined
  /** Of a virtual server or of a real server. */
  readonly address?: string | undefined
  /** Part of what a row shows. */
  readonly text?: string | undefined
}

export interface Row {
  /** `demo/web`; null: unknown. */
  readonly service: string | null
  /** `10.244.0.1:8080`; null in rows of Services. */
  readonly realServer: string | null
  /** Keys of the virtual servers, or Service ports in iptables mode. */
  readonly places: readonly string[]
  /** A second. */
  readonly traffic: Traffic
  /** NaN: unknown */
  readonly active: number
  readonly inactive: number
  /** It drains in every place: it gets no new connections. */
  readonly isDraining: boolean
}

export interface Rows {
  readonly rows: readonly Row[]
  readonly total: Pick<Row, 'traffic' | 'active' | 'inactive'>
}

/** The Service port of a place (`demo/web:http`); undefined: unknown. */
export type NameOf = (place: string) => string | undefined

/** `demo/web` of the Service port `demo/web:http`. */
export function serviceOfPort(servicePort: string): string {
  const colon = servicePort.indexOf(':')
  return colon < 0 ? servicePort : servicePort.slice(0, colon)
}

interface Group {
  readonly service: string | null
  readonly realServer: string | null
  readonly places: string[]
  readonly traffic: Float64Array
  active: number
  inactive: number
  isDraining: boolean
}

export function rowsOf(rates: Rates, by: Grouping, nameOf: NameOf, filter: TrafficFilter): Rows {
  const groups = new Map<string, Group>()
  for (const [key, place] of rates.places) {
    const port = place.servicePort ?? nameOf(key)
    const service = port === undefined ? null : serviceOfPort(port)
    if (!isOfService(service, filter)) continue
    const isWhole = filter.address === undefined || place.addresses.includes(filter.address)
    if (by === 'service') {
      if (!isWhole && !hasRealServer(place, filter.address)) continue
      const sums = connectionsOf(place)
      add(groups, service ?? key, { service, realServer: null }, key, place.traffic, sums, false)
    } else
      for (const [name, server] of place.realServers ?? []) {
        if (!isWhole && addressOfKey(name) !== filter.address) continue
        add(
          groups,
          `${service ?? key} ${name}`,
          { service, realServer: name },
          key,
          server.traffic,
          server,
          server.isDraining,
        )
      }
  }
  const rows = Array.from(groups.values()).filter((row) => filter.text === undefined || shows(row, filter.text))
  const traffic = unknownTraffic()
  let [active, inactive] = [0, 0]
  for (const row of rows) {
    addTraffic(traffic, row.traffic)
    active += row.active
    inactive += row.inactive
  }
  return { rows, total: { traffic, active, inactive } }
}

function isOfService(service: string | null, { namespace, name }: TrafficFilter): boolean {
  if (namespace === undefined) return true
  if (service === null) return false
  return name === undefined ? service.startsWith(`${namespace}/`) : service === `${namespace}/${name}`
}

function hasRealServer({ realServers }: PlaceSample, address: string | undefined): boolean {
  return Array.from(realServers?.keys() ?? []).some((key) => addressOfKey(key) === address)
}

function shows({ service, realServer, places }: Row, text: string): boolean {
  return [service ?? '', realServer ?? '', ...places].some((one) => one.includes(text))
}

/** What was never used has no connections, even when its real servers were not read. */
function connectionsOf({ realServers, isUsed }: PlaceSample): Pick<RealServerSample, 'active' | 'inactive'> {
  if (realServers === undefined) {
    const none = isUsed ? Number.NaN : 0
    return { active: none, inactive: none }
  }
  let [active, inactive] = [0, 0]
  for (const server of realServers.values()) {
    active += server.active
    inactive += server.inactive
  }
  return { active, inactive }
}

function add(
  groups: Map<string, Group>,
  id: string,
  name: Pick<Row, 'service' | 'realServer'>,
  place: string,
  traffic: Traffic,
  connections: Pick<RealServerSample, 'active' | 'inactive'>,
  isDraining: boolean,
): void {
  let group = groups.get(id)
  if (group === undefined) {
    group = { ...name, places: [], traffic: unknownTraffic(), active: 0, inactive: 0, isDraining: true }
    groups.set(id, group)
  }
  group.places.push(place)
  addTraffic(group.traffic, traffic)
  group.active += connections.active
  group.inactive += connections.inactive
  group.isDraining &&= isDraining
}

/** What a row is called, where the Service is unknown too. */
export function titleOf({ service, places }: Pick<Row, 'service' | 'places'>): string {
  return service ?? places[0] ?? ''
}

/** Sorts by what is most first, or by name; equal rows by name. What is unknown is last. */
export function sortRows(rows: readonly Row[], by: SortKey): readonly Row[] {
  const names = (a: Row, b: Row): number =>
    compareText(titleOf(a), titleOf(b)) || compareText(a.realServer ?? '', b.realServer ?? '')
  if (by === 'name') return rows.toSorted(names)
  const values = new Map(rows.map((row) => [row, valueOf(row, by)]))
  const value = (row: Row): number => {
    const known = values.get(row) ?? Number.NaN
    return Number.isNaN(known) ? -1 : known
  }
  return rows.toSorted((a, b) => value(b) - value(a) || names(a, b))
}

function valueOf({ traffic, active }: Pick<Row, 'traffic' | 'active'>, by: SortKey): number {
  const sum = (a: number, b: number): number => (traffic[a] ?? Number.NaN) + (traffic[b] ?? Number.NaN)
  switch (by) {
    case 'connections':
      return traffic[CONNECTIONS] ?? Number.NaN
    case 'packets':
      return sum(PACKETS_IN, PACKETS_OUT)
    case 'bytes':
      return sum(BYTES_IN, BYTES_OUT)
    case 'active':
      return active
    case 'name':
      return 0
  }
}

/** The places of a sample in the order in which their real servers are worth reading, the most used first. */
export function placesByUse(rates: Rates | undefined, sample: Sample, by: SortKey): readonly string[] {
  const use = (key: string): number => {
    const known = rates?.places.get(key)
    const active = known === undefined ? 0 : connectionsOf(known).active
    const rate = known === undefined ? Number.NaN : valueOf({ traffic: known.traffic, active }, by)
    return Number.isNaN(rate) ? 0 : rate
  }
  const total = (key: string): number => sample.places.get(key)?.traffic[CONNECTIONS] ?? 0
  const uses = new Map(Array.from(sample.places.keys(), (key) => [key, [use(key), total(key)] as const]))
  const order = (key: string): readonly [number, number] => uses.get(key) ?? [0, 0]
  return Array.from(uses.keys())
    .filter((key) => sample.places.get(key)?.isUsed === true)
    .sort((a, b) => order(b)[0] - order(a)[0] || order(b)[1] - order(a)[1] || compareText(a, b))
}
