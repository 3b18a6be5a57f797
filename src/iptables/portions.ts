/**
 * Work on very many lines or rules of other programs in portions, so that the event loop does other work in between.
 * @impure
 */
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Longest portion, in milliseconds. */
const PORTION_MS = 4
/** Items of about a microsecond between two looks at the clock. */
const ITEMS = 64

/** Rejects when aborted. @param now tests have a clock of their own */
export async function inPortions<T>(
  items: Iterable<T>,
  take: (item: T) => void,
  signal: AbortSignal,
  now: () => number = () => performance.now(),
): Promise<void> {
  let sinceMs = now()
  let count = 0
  for (const item of items) {
    take(item)
    if (++count % ITEMS !== 0 || now() - sinceMs < PORTION_MS) continue
    await nextTurn()
    signal.throwIfAborted()
    sinceMs = now()
  }
}
