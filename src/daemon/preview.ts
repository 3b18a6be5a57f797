/**
 * What a pass would change, without changing anything: the sources list once into frontends that no loop ever applies.
 */
import type { ObjectKind } from '../service/objects.ts'
import type { DesiredFrontends } from '../sync/desired-frontends.ts'
import type { FirstLists } from './first-lists.ts'
import { listOnce } from './list-once.ts'
import type { ModeDataplane } from '../modes/mode.ts'

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

/** The commands, in the order of a pass. Rejects with `source-timeout` when the sources have not listed in time. */
export async function preview(options: PreviewOptions): Promise<string[]> {
  const { open, desired, dataplane, deadlineMs, onWait, signal } = options
  await listOnce(open, deadlineMs, onWait)
  const listener = { frontend: dataplane.frontend.bind(dataplane), problems: () => undefined }
  desired.flush(listener, Number.POSITIVE_INFINITY)
  return dataplane.preview({ signal, mayRemove: true })
}
