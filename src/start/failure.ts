/** Why the daemon has failed before it had a log: in the words of kube-proxy, and the next step for a terminal. */
import { CodedError } from '../values/errors.ts'
import { USAGE_EXIT_CODE } from './command-line.ts'
import { formatOf, writeEarlyLine } from './early-lines.ts'
import { nextStep } from './next-step.ts'
import { isErrorTerminal, printErrorText } from './output.ts'

/** Writes it to standard error. Returns the exit code. */
export function reportFailure(error: unknown): number {
  const format = formatOf(error)
  const err = error instanceof Error ? reasonOf(error) : String(error)
  writeEarlyLine({ level: 'error', message: 'command failed', fields: { err }, format })
  const advice = error instanceof CodedError ? error.advice : undefined
  const step = nextStep(error)
  // A command in it has to be readable, so it stands without quotes.
  if (advice !== undefined) writeEarlyLine({ level: 'error', message: advice, unstructured: true, format })
  else if (step !== undefined && isErrorTerminal()) printErrorText(step)
  return USAGE_EXIT_CODE.run
}

/** A bug of this program is reported with its stack. */
function reasonOf(error: Error): string {
  return error instanceof CodedError ? error.message : (error.stack ?? error.message)
}
