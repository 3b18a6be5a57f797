/**
 * How long tests wait. Deadlines are written for a fast kernel; the runner measures the kernel that runs the tests and passes
 * on the factor for them. A test waits for a condition, never for a time.
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

const TURNS = 3

/** Waits until a condition holds; rejects with `what` after the deadline, which is for a fast kernel. */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  deadlineMs = DEADLINE_MS,
  pauseMs = 5,
): Promise<void> {
  const check = async (): Promise<void> => {
    if (!(await isSo())) throw new Error(`not within ${deadline(deadlineMs)} ms: ${what}`)
  }
  await eventually(check, deadlineMs, pauseMs)
}

/**
 * Waits until `check` stops throwing; rejects with its last error after the deadline, which is for a fast kernel. What the check reads of the
 * kernel by the functions of kernel-state.ts costs no process while nothing changes.
 */
export async function eventually(
  check: () => void | Promise<void>,
  deadlineMs = DEADLINE_MS,
  pauseMs = 25,
): Promise<void> {
  const lateMs = now() + deadline(deadlineMs)
  const wait = new Wait()
  for (;;) {
    const startedMs = now()
    try {
      await wait.attempt(check)
      // What a daemon logged before this state was there is in its pipe; these turns of the event loop read it.
      for (let turn = 0; turn < TURNS; turn++) await nextTurn()
      return
    } catch (error) {
      if (now() > lateMs) throw error
      // At most half of the time is spent on checking: the condition and other tests need the processor too.
      await sleep(Math.max(pauseMs, now() - startedMs))
    }
  }
}
