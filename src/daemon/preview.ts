/**
 * What a pass would change, without changing anything: the sources list once into frontends that no loop ever applies.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { DesiredFrontends } from '../sync/desired-frontends.ts'
import { CodedError } from '../values/errors.ts'
import { FirstLists } from './first-lists.ts'
import type { ModeDataplane } from './mode.ts'

export interface PreviewOptions {
  /** Opens the source; it tells these lists what has listed, and the desired frontends what there is. */
  readonly open: (lists: FirstLists) => void
  readonly desired: DesiredFrontends
  readonly dataplane: ModeDataplane
  /** As long as the sources may take to list. */
  readonly deadlineMs: number
  readonly signal: AbortSignal
}

/** The commands, in the order of a pass. Rejects with `source-timeout` when the sources have not listed in time. */
export async function preview({ open, desired, dataplane, deadlineMs, signal }: PreviewOptions): Promise<string[]> {
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
  const listener = { frontend: dataplane.frontend.bind(dataplane), problems: () => undefined }
  desired.flush(listener, Number.POSITIVE_INFINITY)
  return dataplane.preview({ signal, mayRemove: true })
}
