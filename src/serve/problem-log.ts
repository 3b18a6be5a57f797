/**
 * Logs problems with objects: one line when a problem appears, and one when an object has no
 * problem any more. It stores only current problems, so its size does not grow with the cluster.
 */
import { formatProblem, type Problem } from '../values/errors.ts'
import type { Log } from '../values/log.ts'

export class ProblemLog {
  readonly #log: Log
  readonly #onNew: ((problem: Problem) => void) | undefined
  readonly #open = new Map<string, readonly Problem[]>()

  /** @param onNew called for each problem when it appears */
  constructor(log: Log, onNew?: (problem: Problem) => void) {
    this.#log = log
    this.#onNew = onNew
  }

  /** All current problems, those of one object together. It follows changes while it is read. */
  *current(): Generator<Problem, void, void> {
    for (const problems of this.#open.values()) yield* problems
  }

  /** How many problems there are now. */
  get count(): number {
    let count = 0
    for (const problems of this.#open.values()) count += problems.length
    return count
  }

  /** Replaces all problems that one reporter has with one subject. */
  report(reporter: string, subject: string, problems: readonly Problem[]): void {
    const key = `${reporter} ${subject}`
    const before = new Set(this.#open.get(key)?.map(formatProblem))
    if (problems.length === 0) this.#open.delete(key)
    else this.#open.set(key, problems)
    for (const problem of problems) {
      const { code, field, message } = problem
      if (before.delete(formatProblem(problem))) continue
      this.#log.warn('Problem with an object', {
        object: problem.subject,
        ...(field === undefined ? {} : { field }),
        reason: message,
        code,
      })
      this.#onNew?.(problem)
    }
    if (before.size > 0 && problems.length === 0)
      this.#log.info('Problems with an object resolved', { object: subject })
  }
}
