/**
 * Work that is attempted again and again until it is done.
 * @impure
 */
import { setTimeout as sleep } from 'node:timers/promises'

export interface RetryOptions {
  readonly onError: (error: unknown) => void
  /** From one attempt to the next. */
  readonly pauseMs: () => number
  readonly signal: AbortSignal
}

/** Attempts to the first one that resolves to true, or until aborted; one that rejects is made again too. */
export async function retryUntilDone(
  attempt: (round: number) => Promise<boolean>,
  { onError, pauseMs, signal }: RetryOptions,
): Promise<void> {
  for (let round = 0; !signal.aborted; round++) {
    try {
      if (await attempt(round)) return
    } catch (error) {
      if (signal.aborted) return
      onError(error)
    }
    await sleep(pauseMs(), undefined, { signal }).catch(() => undefined)
  }
}
