/** How long test files and stages may take, in proportion to the speed of their kernel. */

export interface Limits {
  /** For one file. */
  readonly fileMs: number
  /** For all files of a stage. */
  readonly stageMs: number
  /** No file begins later than this after the start of the stage; only on a slow kernel, see `limitsFor`. */
  readonly beginWithinMs: number | undefined
}

const MINUTE_MS = 60_000
/**
 * On a fast kernel: several times what the slowest file and the slowest stage take. The measured
 * factor of a slow one may be too small.
 */
const FILE_MS = 6 * MINUTE_MS
const STAGE_MS = 23 * MINUTE_MS
/** The longest reasonable wait for a file that hangs; CI ends a run after 90 minutes. */
const LONGEST_FILE_MS = 20 * MINUTE_MS
const LONGEST_STAGE_MS = 70 * MINUTE_MS
/** From this deadline factor on, all files together could take too long: on a fast kernel they take four minutes. */
export const SLOW_FACTOR = 2
const BEGIN_WITHIN_MS = 9 * MINUTE_MS

/**
 * @param factor see `deadlineFactor`
 * @param mayLeaveOut whether files may be left out on a slow kernel: not in CI, and not when the
 * command line names files
 */
export function limitsFor(factor: number, mayLeaveOut: boolean): Limits {
  return {
    fileMs: Math.min(FILE_MS * factor, LONGEST_FILE_MS),
    stageMs: Math.min(STAGE_MS * factor, LONGEST_STAGE_MS),
    beginWithinMs: mayLeaveOut && factor >= SLOW_FACTOR ? BEGIN_WITHIN_MS : undefined,
  }
}
