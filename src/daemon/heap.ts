/**
 * How the engine's heap grows: freely during a start, when nearly all that is allocated stays, and sparingly
 * afterwards, when each change of an endpoint leaves some 4 KB of old values behind.
 * What could break: these are settings of V8 that it reads at each collection (v8.setFlagsFromString warns of others);
 * `gc` exists only where node was started with --expose-gc, as the image does, and nothing depends on it.
 */
import { setFlagsFromString } from 'node:v8'

/** Changes that arrived during the first pass go first: these collections hold the event loop once, for 0.1 to 0.3 s. */
const AFTER_FIRST_PASS_MS = 1000

/** Until `growSparingly` the heap may become nine times what was in use at the last full collection. */
export function growFreely(): void {
  setFlagsFromString('--heap-growing-percent=800')
}

/**
 * From now on a tenth more than what is in use. Each collection moves the little that is left of emptied pages together and
 * gives the pages back; nothing is collected just because the program rests. Once, a moment later, everything that the
 * start left behind goes, so that no later collection has much to move.
 */
export function growSparingly(): void {
  for (const flag of STEADY) setFlagsFromString(flag)
  setTimeout(
    () => globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' }),
    AFTER_FIRST_PASS_MS,
  ).unref()
}

const STEADY = ['--heap-growing-percent=10', '--memory-saver-mode', '--no-memory-reducer']
