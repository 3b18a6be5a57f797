/**
 * What a pass would change, without changing anything: the sources list once into frontends that no loop ever applies.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ObjectKind } from '../service/objects.ts'
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
  /** Some kinds are still missing after a moment that everybody notices; called once. */
  readonly onWait: (awaited: readonly ObjectKind[]) => void
  readonly signal: AbortSignal
}

/** After so long a wait is worth a word, in milliseconds. */
const NOTICED_MS = 500

/** The commands, in the order of a pass. Rejects with `source-timeout` when the sources have not listed in time. */
export async function preview(options: PreviewOptions): Promise<string[]> {
  const { open, desired, dataplane, deadlineMs, onWait, signal } = options
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
  const listener = { frontend: dataplane.frontend.bind(dataplane), problems: () => undefined }
  desired.flush(listener, Number.POSITIVE_INFINITY)
  return dataplane.preview({ signal, mayRemove: true })
}
