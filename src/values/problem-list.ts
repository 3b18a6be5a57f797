/** Problems of one object. Only the first few are kept, since a single object can have thousands. */
import type { Problem } from './errors.ts'

/** Problems kept of one object; the last one says how many more there are. */
const MAX_PROBLEMS = 20

const NONE: readonly Problem[] = []

export class ProblemList {
  #problems: Problem[] | undefined
  #dropped = 0

  get problems(): readonly Problem[] {
    return this.#problems ?? NONE
  }

  add(problem: Problem): void {
    this.#problems ??= []
    if (this.#problems.length < MAX_PROBLEMS) {
      this.#problems.push(problem)
      return
    }
    this.#dropped++
    const message = `and ${this.#dropped + 1} more problems`
    this.#problems[MAX_PROBLEMS - 1] = { code: 'more-problems', subject: problem.subject, message }
  }
}
