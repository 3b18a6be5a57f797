/**
 * How long tests wait. Deadlines are written for a fast kernel; the runner measures the kernel that
 * runs the tests and passes on the factor for them. A deadline that is over is extended once, by
 * what other work on the machine takes at that moment. A test waits for a condition, never for a
 * time.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { DEADLINE_FACTOR_VARIABLE } from '../../dev/kernel/calibrate.ts'
import { Wait } from './waiting.ts'

const factor = Math.max(1, Number(process.env[DEADLINE_FACTOR_VARIABLE] ?? 1))

/** Read before a test may replace them. */
const now = performance.now.bind(performance)
const atNextTurn = setImmediate
const nextTurn = (): Promise<void> => new Promise((resolve) => atNextTurn(resolve))

/** The deadline on this kernel for one on a fast kernel, in whole milliseconds: Node refuses others for processes. */
export const deadline = (milliseconds: number): number => Math.ceil(milliseconds * factor)

/** The default. Long, because the tests share their processors with other work. */
const DEADLINE_MS = 15_000

/** Until an audit has found what nothing announces: all audits together have a thousandth of a processor. */
export const AUDITED_MS = 60_000

const TURNS = 3

/** With more, a deadline would find nothing. */
const MOST_CROWDED = 8
const CROWDING_MS = 200
const PIECE = 100_000
/** The result of the work, so that no compiler leaves it out. */
let sum = 0

/**
 * How many times longer work takes at this moment than with a processor of its own, because other
 * programs or guests use the processors: the mean time of a small piece of work beside its shortest
 * time, 1 to 8.
 * @param clock in milliseconds
 */
export function crowding(clock = now): number {
  const times: number[] = []
  for (const endMs = clock() + CROWDING_MS; clock() < endMs; ) {
    const startedMs = clock()
    for (let index = 0; index < PIECE; index++) sum = (sum + index) | 0
    times.push(clock() - startedMs)
  }
  // The first ones are compiled meanwhile.
  const steady = times.slice(Math.floor(times.length / 4))
  const mean = steady.reduce((all, one) => all + one, 0) / steady.length
  const crowded = mean / Math.min(...steady)
  return crowded > 1 ? Math.min(MOST_CROWDED, crowded) : 1
}

/** The pause between two looks grows to a twentieth of the wait so far, but not above this. */
const LONGEST_PAUSE_MS = 200
const [FIRST_PAUSE_MS, LATER_PAUSES] = [5, 1 / 20]

/**
 * Waits until a condition holds; rejects with `what` after the deadline, which is for a fast kernel.
 * @param pauseMs of what holds for a moment only
 */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  deadlineMs = DEADLINE_MS,
  pauseMs?: number,
): Promise<void> {
  const check = async (): Promise<void> => {
    if (!(await isSo())) throw new Error(`not within ${deadline(deadlineMs)} ms: ${what}`)
  }
  await eventually(check, deadlineMs, pauseMs)
}

/**
 * Waits until `check` stops throwing; rejects with its last error after the deadline, which is for
 * a fast kernel. What the check reads of the kernel by the functions of kernel-state.ts costs no
 * process while nothing changes.
 * @param pauseMs of what holds for a moment only
 */
export async function eventually(
  check: () => void | Promise<void>,
  deadlineMs = DEADLINE_MS,
  pauseMs?: number,
): Promise<void> {
  const beganMs = now()
  let lateMs = beganMs + deadline(deadlineMs)
  let isExtended = false
  const wait = new Wait()
  for (;;) {
    const startedMs = now()
    try {
      await wait.attempt(check)
      // What a daemon logged before this state was there is in its pipe; these turns of the event loop read it.
      for (let turn = 0; turn < TURNS; turn++) await nextTurn()
      return
    } catch (error) {
      if (now() > lateMs) {
        if (isExtended) throw error
        isExtended = true
        lateMs = beganMs + deadline(deadlineMs) * crowding()
      }
      // At most half of the time is spent on checking: the condition and other tests need the processor too.
      const growing = Math.max(FIRST_PAUSE_MS, Math.min(LONGEST_PAUSE_MS, (now() - beganMs) * LATER_PAUSES))
      await sleep(Math.max(pauseMs ?? growing, now() - startedMs))
    }
  }
}
