/** What the relays of node ports at loopback addresses count. */

/** Counts for metrics; connections by what became of them. */
export interface RelayCounts {
  readonly listening: number
  readonly failing: number
  readonly leftOut: number
  readonly connections: number
  readonly relayed: number
  /** Reset because of a limit, because no endpoint answered, and because the client was not on this node. */
  readonly overLimit: number
  readonly unreachable: number
  readonly foreign: number
}
