/**
 * How the engine's heap grows: freely during a start, when nearly all that is allocated stays, and sparingly
 * afterwards, when each change of an endpoint leaves some 4 KB of old values behind.
 * What could break: these are settings of V8 that it reads at each collection (v8.setFlagsFromString warns of others);
 * `gc` exists only where node was started with --expose-gc, as the image does, and nothing depends on it.
 */
import { setFlagsFromString } from 'node:v8'

/** Changes that arrived during the first pass go first: the collection holds the event loop once, for some 50 ms. */
const AFTER_FIRST_PASS_MS = 1000

/** Until `growSparingly` the heap may become four times what was in use at the last full collection. */
export function growFreely(): void {
  setFlagsFromString('--heap-growing-percent=300')
}

/**
 * From now on a tenth more than what is in use, and pages that become empty are given back; nothing is moved about for
 * that, which would hold the event loop for 50 ms, and nothing is collected just because the program rests. Takes away
 * once, a moment later, what the start left behind.
 */
export function growSparingly(): void {
  for (const flag of STEADY) setFlagsFromString(flag)
  setTimeout(() => globalThis.gc?.(), AFTER_FIRST_PASS_MS).unref()
}

const STEADY = ['--heap-growing-percent=10', '--memory-saver-mode', '--no-compact', '--no-memory-reducer']
