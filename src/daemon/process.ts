/**
 * How this process uses its host: the heap of the engine grows freely during a start, when nearly
 * all that is allocated stays, and sparingly afterwards, when each change of an endpoint leaves
 * some 4 KB of old values behind; what only a start needs is given back; and the out-of-memory
 * killer of the kernel gets its score.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { setOomScore } from '../node/sysctl.ts'
import { releaseFilePages, releaseFreedMemory } from '../../native/memory.ts'
import type { Log } from '../values/log.ts'

/**
 * Settings of V8, which it reads each time it needs them. None of these may be a flag of node: V8
 * refuses the code caches of Node's own modules and of the program (dev/code-cache.ts) while they
 * are set, and compiles instead.
 */
const START = [
  '--heap-growing-percent=800',
  '--no-turbofan',
  '--no-separate-gc-phases',
  // Otherwise V8 makes two full collections when little was allocated for 8 s. They stop the
  // program for up to 110 ms in the test kernel, to empty pages; collection-at-rest.ts collects
  // before.
  '--memory-reducer-gc-count=0',
  // Four times as many calls as by default. Else the start asks for hundreds of functions at once,
  // and what waiting compilations need stays with the C library: 10 to 50 MiB more at the peak of a
  // start. What 10,000 Services call often is compiled all the same.
  '--invocation-count-for-maglev=1500',
  '--invocation-count-for-maglev-osr=375',
]
/**
 * Pages that are nearly empty are emptied and returned. Code that did not run since the collection
 * before is dropped, and compiled again if it is called.
 */
const AFTER_START = ['--memory-saver-mode', '--bytecode-old-age=1', '--expose-gc']
/**
 * A burst that replaces a tenth of all endpoints grows the heap by a quarter, which leaves it room;
 * collection-at-rest.ts collects afterwards.
 */
const STEADY = '--heap-growing-percent=50'
/** Emptying nearly empty pages doubles the time of collections in a burst of changes. */
const AT_REST = [
  '--bytecode-old-age=6',
  '--no-memory-saver-mode',
  // V8's defaults.
  '--invocation-count-for-maglev=400',
  '--invocation-count-for-maglev-osr=100',
]

/** Changes that arrived during the first pass are worked on first. */
const FIRST_COLLECTION_MS = 1000
const SECOND_COLLECTION_MS = 3000
const GIVE_BACK_MS = 5000

/**
 * To be called when the program is loaded. Until `growSparingly` the heap may become nine times as
 * large as what was in use at the last full collection. TurboFan would work through the whole
 * start, and take memory for it, for code that then rests; Maglev is enough. The young generation
 * is collected also while a full collection marks. By default V8 lets it grow meanwhile, from 4 MiB
 * to 40 in a burst of changes, and then moves all that is in use there in one stop of up to 40 ms.
 */
export function growFreely(): void {
  setFlags(START)
}

/**
 * Removes what the start has left behind, with two collections in steps of a few milliseconds: one
 * with the limit of the start, because V8 stops the program for a whole collection when the heap is
 * far above its limit, and one that makes the limit of the steady state: from then on the heap
 * grows by half of what is in use. `ended` is called after the last step.
 */
export function growSparingly(log: Log, ended: () => void): void {
  const steps: readonly (readonly [ms: number, step: () => void])[] = [
    [FIRST_COLLECTION_MS, () => collectInSteps(AFTER_START)],
    [SECOND_COLLECTION_MS, () => collectInSteps([STEADY])],
    [
      GIVE_BACK_MS,
      () => {
        setFlags(AT_REST)
        giveBackMemory(log)
        ended()
      },
    ],
  ]
  for (const [ms, step] of steps) setTimeout(step, ms).unref()
}

function setFlags(flags: readonly string[]): void {
  for (const flag of flags) setFlagsFromString(flag)
}

/**
 * Starts a full collection with these settings; after the first step of `growSparingly`. V8 marks
 * beside the program and between its tasks, and stops it only to finish.
 */
export function collectInSteps(flags: readonly string[] = []): void {
  setFlags(flags)
  // Only contexts that are made after --expose-gc have the function.
  const collect = runInNewContext('gc') as (options: object) => void
  // After a collection of the young generation V8 asks whether a full one is due, which this setting says.
  setFlagsFromString('--stress-incremental-marking')
  collect({ type: 'minor', execution: 'sync' })
  setFlagsFromString('--no-stress-incremental-marking')
}

/**
 * Half of the resident memory after a start is code of Node that does not run again, and the C
 * library keeps what the start has freed.
 */
function giveBackMemory(log: Log): void {
  try {
    releaseFreedMemory()
    log.verbose(4, 'Gave back code that only a start needs', { kibibytes: releaseFilePages() })
  } catch (error) {
    log.verbose(2, 'Cannot give back memory that only a start needs', { error })
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
