/** What a boot of the bench is asked to measure, what it answers, and what its phases share. */
import type { ApiServerProcess } from './api-server-process.ts'
import type { ProgramCommand } from './guest-node.ts'
import type { MeasuredProgram } from './measured-program.ts'
import type { Firewall, Measured, Mode } from './result.ts'
import type { TableView } from './table-view.ts'

/** `inside`: what the program says of itself, its messages to the kernel and how long its event loop was held. */
export type Phase = 'traffic' | 'changes' | 'burst' | 'rest' | 'inside'

export interface Limits {
  readonly coldStartSeconds: number
  /** For one change, and for a burst. */
  readonly changeSeconds: number
  /** No further change begins after so long. */
  readonly changesSeconds: number
  /** The pause between two changes. */
  readonly betweenChangesMs: number
  /** How long the program is left alone. */
  readonly idleSeconds: number
}

/** New connections through one ClusterIP. */
export interface TrafficTask {
  /** Path of the compiled `traffic.c`. */
  readonly program: string
  /** One after the other, whose latency is measured. */
  readonly requests: number
  /** Of all clients together, whose rate is measured. No port is used twice in a boot. */
  readonly connections: number
  /** Processes that make those connections at the same time. */
  readonly clients: number
}

/** What the host asks of a guest, as one argument of JSON. */
export interface GuestTask extends ProgramCommand {
  readonly mode: Mode
  readonly firewall?: Firewall
  /** Only our program has a choice. */
  readonly virtualAddresses: 'addresses' | 'routes'
  readonly services: number
  readonly endpoints: number
  readonly phases: readonly Phase[]
  readonly limits: Limits
  /** The maximum number of timed changes. */
  readonly changes: number
  /** For the phase `traffic`. */
  readonly traffic?: TrafficTask
}

/** What the guest prints. */
export type Outcome = { readonly measured: Measured } | { readonly failure: string }

export interface MeasureOptions extends GuestTask {
  readonly api: ApiServerProcess
  readonly table: TableView
  readonly start: () => MeasuredProgram
  readonly say: (text: string) => void
}
