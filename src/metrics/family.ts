/**
 * A family of metrics: what is the same for all of its samples.
 * What could break: names, types, labels and help texts are what dashboards, alerts and people rely on; tests hold those that
 * kube-proxy has against its own page.
 */

export type MetricType = 'counter' | 'gauge' | 'histogram'

export interface Family {
  readonly name: string
  readonly type: MetricType
  readonly help: string
  /** In alphabetical order, as they are written; `le` comes after them. */
  readonly labels: readonly string[]
  /** Upper bounds of a histogram. */
  readonly buckets?: readonly number[]
}

/** Families under names of our own choice. */
export type Families = Readonly<Record<string, Family>>
