/** A fault as data: what is expected of it, how it is made and how it ends; and what a guest has seen. */
import type { HeldReport, RateReport } from '../../bench/traffic-client.ts'
import type { Mode } from '../../bench/result.ts'
import type { ChaosNode } from './node.ts'

/** What a liveness probe gets: `any` where that is no promise. */
export type Probed = 'ok' | 'fails' | 'silent' | 'any'

export interface Expectation {
  /** For the page: half a sentence. */
  readonly text: string
  /** Established connections that may be lost; default 0. */
  readonly dropped?: 'any'
  /** New connections that may fail, at most; default 0. */
  readonly failed?: number | 'any'
  /** From when on a Service that is added during the fault is served, within so many seconds. */
  readonly change: { readonly from: 'fault' | 'end'; readonly withinS: number }
  /** For faults that remove something: all of it is there again within so many seconds, although the fault lasts. */
  readonly repairedWithinS?: number
  /** Default ok. */
  readonly livez?: Probed
  /** What the operator must be able to read, in the log or in `kube-ipvs status`. */
  readonly reads?: RegExp
}

export interface Fault {
  readonly name: string
  readonly expectation: Expectation
  readonly mode?: Mode
  /** Fields of the configuration. */
  readonly configuration?: object
  /** `modules`: IPVS has to be a module. */
  readonly kernel?: 'modules'
  /** How long it lasts; `long`: ten minutes, which --hours changes. */
  readonly seconds: number | 'long'
  /** Whether traffic to a node port is counted too; default true. */
  readonly nodePort?: false
  /** Before the program starts. */
  readonly prepare?: (node: ChaosNode) => Promise<void> | void
  readonly inject: (node: ChaosNode) => Promise<void> | void
  /** Absent: there is nothing to end. */
  readonly heal?: (node: ChaosNode) => Promise<void> | void
}

/** What the operator saw from the fault to its end. */
export interface Operator {
  /** `200`, or `200, none after 2 s, 200 after 20 s`. */
  readonly livez: string
  readonly healthz: string
  /** The verdict of `kube-ipvs status` at the end, and its reasons; or why there is none. */
  readonly status: readonly string[]
  /** Counters that have grown. */
  readonly metrics: Readonly<Record<string, number>>
  /** Warnings and errors with how often each was logged. */
  readonly log: Readonly<Record<string, number>>
}

/** What a guest prints. */
export interface Seen {
  readonly seconds: number
  readonly held: HeldReport
  readonly made: RateReport
  /** From the write of the change until it was served; null: not in time. */
  readonly changeMs: number | null
  /** The same from the end of the fault on; 0: before that. */
  readonly changeAfterEndMs: number | null
  /** Until all that the kernel had before was there again; null: not before the end of the fault. */
  readonly repairedMs: number | null
  /** What the kernel had before and lacks at the end, or has too much: the first lines. */
  readonly differences: readonly string[]
  readonly operator: Operator
  /** What the fault says of itself, such as the number of lost announcements. */
  readonly notes: readonly string[]
  /** The first connections that failed. */
  readonly failures: readonly string[]
}
