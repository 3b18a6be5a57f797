/** Waits until a source has listed everything once, for commands that look and end. */
import { setTimeout as sleep } from 'node:timers/promises'
import { CodedError } from '../values/errors.ts'
import { FirstLists } from './first-lists.ts'

/**
 * `open` opens a source that tells these lists what has listed. Rejects with `source-timeout` when not all has within
 * the deadline.
 */
export async function listOnce(open: (lists: FirstLists) => void, deadlineMs: number): Promise<void> {
  const lists = new FirstLists({ onNode: () => undefined, onComplete: () => undefined })
  try {
    open(lists)
    const lateMs = performance.now() + deadlineMs
    while (lists.awaited.size > 0) {
      if (performance.now() > lateMs)
        throw new CodedError(
          'source-timeout',
          `no complete list of ${[...lists.awaited].join(', ')} within ${deadlineMs / 1000} s`,
        )
      await sleep(10)
    }
  } finally {
    lists.close()
  }
}
