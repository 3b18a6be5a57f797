/**
 * How this process uses its host: the heap of the engine grows freely during a start, when nearly all that is allocated stays,
 * and sparingly afterwards, when each change of an endpoint leaves some 4 KB of old values behind; the code of Node that only a
 * start runs is given back; and the score that the kernel's out-of-memory killer gets.
 */
import { setFlagsFromString } from 'node:v8'
import { setOomScore } from '../node/sysctl.ts'
import { releaseFilePages } from '../../native/memory.ts'
import type { Log } from '../values/log.ts'

/** Changes that arrived during the first pass are worked on first: the collection blocks the event loop once, for 0.1 to 0.3 s. */
const AFTER_FIRST_PASS_MS = 1000

/** Settings of V8 that it reads at each collection. v8.setFlagsFromString warns that other settings take no effect this late. */
const STEADY = ['--heap-growing-percent=10', '--memory-saver-mode', '--no-memory-reducer']

/** Until `growSparingly` the heap may become nine times as large as what was in use at the last full collection. */
export function growFreely(): void {
  setFlagsFromString('--heap-growing-percent=800')
}

/**
 * From now on the heap grows by a tenth of what is in use. Each collection moves the contents of pages that are nearly empty
 * together and returns the pages; V8 starts no collection just because the program is idle. One collection follows a moment
 * later and removes everything that the start left behind, so that later ones have little to move. It needs `gc`, which
 * exists only where node was started with --expose-gc, as in the image; nothing depends on it.
 */
export function growSparingly(log: Log): void {
  for (const flag of STEADY) setFlagsFromString(flag)
  setTimeout(() => {
    globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' })
    giveBackCode(log)
  }, AFTER_FIRST_PASS_MS).unref()
}

/** Half of the resident memory after a start is code of Node that does not run again. */
function giveBackCode(log: Log): void {
  try {
    log.verbose(4, 'Gave back code that only a start needs', { kibibytes: releaseFilePages() })
  } catch (error) {
    log.verbose(2, 'Cannot give back code that only a start needs', { error })
  }
}

/** A proxy without the right to set the score runs with the one it has. */
export function applyOomScore(score: number, log: Log): void {
  try {
    setOomScore(score)
  } catch (error) {
    log.verbose(2, 'Failed to apply OOMScore', { error, oomScoreAdj: score })
  }
}
