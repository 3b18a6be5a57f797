/** The daemon, from its command line to the end of its process. */
import { exitNow } from '../../native/exit-now.ts'
import type { CommandLine } from './command-line.ts'
import { reportFailure } from './failure.ts'
import { outputWritten, printErrorText } from './output.ts'
import { run } from './run.ts'

/** Ends the process with the daemon's exit code. It never rejects. */
export async function main({ flags, notices }: CommandLine): Promise<never> {
  if (notices.length > 0) printErrorText(notices.join('\n'))
  const code = await run(flags).catch(reportFailure)
  await outputWritten()
  return exitNow(code)
}
