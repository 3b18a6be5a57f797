/** What `kube-ipvs top --output json` prints: the table as one JSON value, with null for what is unknown. */
import type { ProxyMode } from '../config/types.ts'
import { type Row, type SortKey, sortRows } from '../traffic/rows.ts'
import { BYTES_IN, BYTES_OUT, CONNECTIONS, PACKETS_IN, PACKETS_OUT } from '../traffic/sample.ts'
import { outlierOf, type TopTable } from './top-text.ts'

export interface TopJson {
  readonly mode: ProxyMode
  readonly by: TopTable['by']
  readonly sort: SortKey
  /** Between the two reads. */
  readonly seconds: number
  /** Why active and inactive connections are null; null when they are known. */
  readonly withoutConnections: string | null
  readonly total: TopNumbers
  readonly rows: readonly (TopNumbers &
    Pick<Row, 'service' | 'realServer' | 'places'> & {
      readonly draining: boolean
      /** `suspect`, `on-trial` or `limited`: it does not answer; null: it does, or nobody judges it. */
      readonly outlier: string | null
    })[]
}

/** Rates a second with two decimals, and connections at the second read. null: unknown. */
export interface TopNumbers {
  readonly connectionsPerSecond: number | null
  readonly packetsInPerSecond: number | null
  readonly packetsOutPerSecond: number | null
  readonly bytesInPerSecond: number | null
  readonly bytesOutPerSecond: number | null
  readonly activeConnections: number | null
  readonly inactiveConnections: number | null
}

export function topJson({ rates, rows, by, sort, outliers }: TopTable): TopJson {
  const { mode, seconds, withoutConnections = null } = rates
  return {
    mode,
    by,
    sort,
    seconds: rounded(seconds) ?? 0,
    withoutConnections,
    total: numbersOf(rows.total),
    rows: sortRows(rows.rows, sort).map((row) => {
      const outlier = outlierOf(row, outliers) ?? null
      return {
        service: row.service,
        realServer: row.realServer,
        places: row.places,
        draining: row.realServer !== null && row.isDraining && outlier === null,
        outlier,
        ...numbersOf(row),
      }
    }),
  }
}

function numbersOf({ traffic, active, inactive }: Pick<Row, 'traffic' | 'active' | 'inactive'>): TopNumbers {
  const of = (index: number): number | null => rounded(traffic[index] ?? Number.NaN)
  return {
    connectionsPerSecond: of(CONNECTIONS),
    packetsInPerSecond: of(PACKETS_IN),
    packetsOutPerSecond: of(PACKETS_OUT),
    bytesInPerSecond: of(BYTES_IN),
    bytesOutPerSecond: of(BYTES_OUT),
    activeConnections: rounded(active),
    inactiveConnections: rounded(inactive),
  }
}

function rounded(value: number): number | null {
  return Number.isNaN(value) ? null : Math.round(value * 100) / 100
}
