/** Processor time of the programs that this process has started: npm test prints it for each stage. */
import { readFileSync } from 'node:fs'

/** Ticks a second in /proc/PID/stat (proc(5), USER_HZ), on every architecture that Node runs on. */
const TICKS_A_SECOND = 100

/**
 * User and system time of all processes that this process and its children have waited for, in
 * seconds (`cutime`, `cstime`). Those that still run are not in it.
 */
export function childrenSeconds(): number {
  const text = readFileSync('/proc/self/stat', 'utf8')
  // The name of the program, in parentheses, may hold spaces; `state` is the first field behind it.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [cutime = 0, cstime = 0] = fields.slice(13, 15).map(Number)
  return (cutime + cstime) / TICKS_A_SECOND
}

/** Measures a part of a run. */
export class Stopwatch {
  readonly #startedAt = performance.now()
  readonly #cpuSeconds = childrenSeconds()

  /** `in 66 s, 129 s of processor time` */
  get text(): string {
    const seconds = (performance.now() - this.#startedAt) / 1000
    return `in ${seconds.toFixed(0)} s, ${(childrenSeconds() - this.#cpuSeconds).toFixed(0)} s of processor time`
  }
}
