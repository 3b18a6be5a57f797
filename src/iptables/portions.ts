/**
 * Work on very many lines or rules of other programs in portions, so that the event loop does other
 * work in between.
 * @impure
 */
import type { Clock } from '../values/clock.ts'
import { newBudget } from '../values/event-loop.ts'

/** Rejects when aborted. @param now tests have a clock of their own */
export async function inPortions<T>(
  items: Iterable<T>,
  take: (item: T) => void,
  signal: AbortSignal,
  now?: Clock,
): Promise<void> {
  const budget = newBudget(now)
  for (const item of items) {
    take(item)
    if (!budget.spentBySteps()) continue
    await budget.turn()
    signal.throwIfAborted()
  }
}
