/** The daemon, from its command line to its exit code. */
import type { CommandLine } from './command-line.ts'
import { reportFailure } from './failure.ts'
import { printErrorText } from './output.ts'
import { run } from './run.ts'

/** Resolves to the exit code. It never rejects. */
export async function main({ flags, notices }: CommandLine): Promise<number> {
  if (notices.length > 0) printErrorText(notices.join('\n'))
  try {
    return await run(flags)
  } catch (error) {
    return reportFailure(error)
  }
}
