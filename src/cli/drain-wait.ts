/** Waits until no connection to an endpoint is left, or until the time is over. It counts, and sleeps in between. */
import type { ConnectionCounts } from '../modes/look/connections.ts'
import type { Clock } from '../values/clock.ts'

export interface WaitOptions {
  /** undefined: cannot be counted at the moment. */
  readonly count: () => Promise<ConnectionCounts | undefined>
  readonly timeoutMs: number
  /** Inactive connections and flows of UDP keep the wait too. */
  readonly all: boolean
  readonly now: Clock
  readonly sleep: (milliseconds: number) => Promise<unknown>
  /** Called after each count. */
  readonly onCount?: (counts: ConnectionCounts | undefined, waitedMs: number) => void
}

export interface WaitEnd {
  readonly isDone: boolean
  readonly waitedMs: number
  /** The last count; undefined: it could not be counted. */
  readonly counts: ConnectionCounts | undefined
}

/**
 * Shortest pause between two counts, in milliseconds. A longer count makes longer pauses: reading
 * takes a fifth of a core at most.
 */
const PAUSE_MS = 1000
const REST_FACTOR = 4

export async function waitForEnd({ count, timeoutMs, all, now, sleep, onCount }: WaitOptions): Promise<WaitEnd> {
  const startedMs = now()
  for (;;) {
    const askedMs = now()
    const counts = await count()
    const nowMs = now()
    const waitedMs = nowMs - startedMs
    onCount?.(counts, waitedMs)
    if (counts !== undefined && left(counts, all) === 0) return { isDone: true, waitedMs, counts }
    if (waitedMs >= timeoutMs) return { isDone: false, waitedMs, counts }
    const pauseMs = Math.max(PAUSE_MS, (nowMs - askedMs) * REST_FACTOR)
    await sleep(Math.min(pauseMs, timeoutMs - waitedMs))
  }
}

/** Connections that the command still waits for. */
function left({ active, inactive, udp }: ConnectionCounts, all: boolean): number {
  return all ? active + inactive + (udp ?? 0) : active
}
