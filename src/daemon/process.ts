/**
 * How this process uses its host: the heap of the engine grows freely during a start, when nearly all that is allocated stays,
 * and sparingly afterwards, when each change of an endpoint leaves some 4 KB of old values behind; the code of Node that only a
 * start runs is given back; and the score that the kernel's out-of-memory killer gets.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { setOomScore } from '../node/sysctl.ts'
import { releaseFilePages } from '../../native/memory.ts'
import type { Log } from '../values/log.ts'

/** Changes that arrived during the first pass are worked on first: the collection blocks the event loop once, for 0.1 to 0.3 s. */
const AFTER_FIRST_PASS_MS = 1000

/**
 * Settings of V8, which it reads each time it needs them. None of these may be a flag of node: V8 refuses the code caches of Node's own modules
 * and of the program (dev/code-cache.ts) while they are set, and compiles instead.
 */
const START = ['--heap-growing-percent=800', '--no-turbofan']
const STEADY = ['--heap-growing-percent=10', '--memory-saver-mode', '--no-memory-reducer']
/** For the collection after a start: code that did not run since the collection before it is dropped; V8 compiles it again if it is called. */
const COLLECTION = ['--expose-gc', '--bytecode-old-age=1']

/**
 * To be called when the program is loaded. Until `growSparingly` the heap may become nine times as large as what was in use at the last
 * full collection. TurboFan would work through the whole start, and take memory for it, for code that then rests; Maglev is enough.
 */
export function growFreely(): void {
  for (const flag of START) setFlagsFromString(flag)
}

/**
 * From now on the heap grows by a tenth of what is in use. Each collection moves the contents of pages that are nearly empty
 * together and returns the pages; V8 starts no collection just because the program is idle. One collection follows a moment
 * later and removes everything that the start left behind, so that later ones have little to move.
 */
export function growSparingly(log: Log): void {
  for (const flag of STEADY) setFlagsFromString(flag)
  setTimeout(() => {
    for (const flag of COLLECTION) setFlagsFromString(flag)
    // Only contexts that are made from now on have the function.
    const collect = runInNewContext('gc') as (options: object) => void
    collect({ type: 'major', execution: 'sync', flavor: 'last-resort' })
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
