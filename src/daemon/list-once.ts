/** Waits until a source has listed everything once, for commands that look and end. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ObjectKind } from '../service/objects.ts'
import { CodedError } from '../values/errors.ts'
import { FirstLists } from './first-lists.ts'

/** After so long a wait is worth a word, in milliseconds. */
const NOTICED_MS = 500

/**
 * `open` opens a source that tells these lists what has listed. Rejects with `source-timeout` when not all has within
 * the deadline. `onWait` hears once of a wait that a person would notice, and for what it is.
 */
export async function listOnce(
  open: (lists: FirstLists) => void,
  deadlineMs: number,
  onWait: (awaited: readonly ObjectKind[]) => void = () => undefined,
): Promise<void> {
  const lists = new FirstLists({ onNode: () => undefined, onComplete: () => undefined })
  try {
    open(lists)
    const lateMs = performance.now() + deadlineMs
    let noticedMs = performance.now() + NOTICED_MS
    while (lists.awaited.size > 0) {
      if (performance.now() > noticedMs) {
        noticedMs = Number.POSITIVE_INFINITY
        onWait([...lists.awaited])
      }
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
