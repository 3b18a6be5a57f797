/** What the part `outliers` of the evidence asks of test/kernel/outlier-deaths.test.ts, and what that tells. */

/** A variable that the test reads: an OutlierRow as JSON, which replaces the rows that the test has itself. */
export const OUTLIER_ROW_VARIABLE = 'KUBE_IPVS_OUTLIER_ROW'

export interface OutlierRow {
  /** Connections a second to each of the four endpoints of a Service. */
  readonly perSecond: number
  readonly services: number
  /** In each round one endpoint of every Service dies. */
  readonly rounds: number
  /** For so long packets are lost and late, and nobody dies. */
  readonly impairedS: number
  /** Services beside them, of five endpoints each, without connections. */
  readonly others: number
}

/** A line of figures; the test tells some of them at a time. */
export interface OutlierFigures {
  readonly deaths?: number
  /** From a death to the last new connection. */
  readonly p50Ms?: number
  readonly p90Ms?: number
  readonly p99Ms?: number
  readonly longestMs?: number
  /** While packets were lost and late. */
  readonly connections?: number
  /** Of living endpoints. */
  readonly suspicions?: number
}
