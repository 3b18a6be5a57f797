/** What a boot of the bench is asked to measure, what it answers, and what its phases share. */
import type { ApiServerProcess } from './api-server-process.ts'
import type { ProgramCommand } from './guest-node.ts'
import type { MeasuredProgram } from './measured-program.ts'
import type { AnyMode, Measured } from './result.ts'
import type { TableView } from './table-view.ts'

/** `counted`: a start and changes under strace, which are not timed; it stands alone. */
export type Phase = 'traffic' | 'changes' | 'burst' | 'rest' | 'beside' | 'watched' | 'slope' | 'counted'

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
  readonly mode: AnyMode
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
  /** For the files of a measurement. */
  readonly folder: string
  readonly start: (stopped: boolean) => MeasuredProgram
  readonly say: (text: string) => void
}

/** Until drains have ended and nothing changes. */
export const SETTLE_MS = 4_000
/** Resolves to the time at which the table was complete, or to undefined at the limit; rejects when the program ended. */
export async function tableComplete(
  { api, table, limits }: MeasureOptions,
  program: MeasuredProgram,
): Promise<number | undefined> {
  const deadlineMs = program.startedMs + limits.coldStartSeconds * 1000
  const complete = await table.whenComplete(api.expected(), deadlineMs, () => program.isAlive)
  if (!program.isAlive) throw new Error(`the program ended:\n${program.logTail}`)
  return complete
}
