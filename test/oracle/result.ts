/**
 * The result of one case, and the lines that report it. It is passed from the guest as one line of
 * JSON, so it has plain values only.
 */
import { indented } from '../support/deviations.ts'

export interface CaseResult {
  readonly name: string
  readonly mode: string
  readonly steps: number
  readonly durationMs: number
  /** Rows of docs/deviations.md whose deviations showed as listed. */
  readonly deviations: readonly number[]
  /** Empty when it passed. */
  readonly failures: readonly CaseFailure[]
  /** The end of the program's log, for a case that failed. */
  readonly log: readonly string[]
}

export interface CaseFailure {
  /** `step 2 ipvs.txt`, or what failed. */
  readonly where: string
  readonly text: string
}

/** One line for a case; for one that failed its differences follow, and with `verbose` the program's log. */
export function formatCase(result: CaseResult, verbose: boolean): string[] {
  const { name, mode, steps, durationMs, deviations, failures, log } = result
  const numbers = [...new Set(deviations)].sort((a, b) => a - b)
  const notes = [
    `${steps} step${steps === 1 ? '' : 's'}`,
    ...(numbers.length > 0 ? [`deviation ${numbers.join(', ')}`] : []),
    `${(durationMs / 1000).toFixed(1)} s`,
  ]
  const line = `${failures.length === 0 ? 'ok  ' : 'FAIL'} ${name} (${mode})  ${notes.join(', ')}`
  const details = failures.flatMap(({ where, text }) => [`  ${where}`, ...indented(text)])
  const logged = verbose && failures.length > 0 ? ['  the end of its log', ...indented(log.join('\n'))] : []
  return [line, ...details, ...logged]
}
