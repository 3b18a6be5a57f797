/** Runs test files on a kernel for a part of the evidence, with a line of progress for each. */
import { DEADLINE_FACTOR_VARIABLE } from '../kernel/calibrate.ts'
import { CHOICE_VARIABLE, type KernelChoice } from '../kernel/choice.ts'
import { projectFolder, say } from '../progress.mjs'
import { runOnKernel } from '../testing/kernel-run.ts'
import { type FileResult, formatFailures, formatFile, formatTold } from '../testing/result.ts'
import { PROGRAM_VARIABLE } from '../testing/variables.ts'

export interface TestFiles {
  readonly choice: KernelChoice
  readonly files: readonly string[]
  /** The entry of the bundle. */
  readonly program: string
  /** The least factor for deadlines. */
  readonly leastFactor: string
  /** Added to the environment of the tests. */
  readonly env?: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}

/** One file at a time, in one guest. */
export async function runTestFiles(run: TestFiles): Promise<readonly FileResult[]> {
  const { choice, files, program, leastFactor, env = {}, signal } = run
  const results: FileResult[] = []
  await runOnKernel({
    choice,
    files,
    cwd: projectFolder,
    env: {
      ...process.env,
      [CHOICE_VARIABLE]: JSON.stringify(choice),
      [DEADLINE_FACTOR_VARIABLE]: leastFactor,
      [PROGRAM_VARIABLE]: program,
      ...env,
    },
    mayLeaveOut: false,
    // The emulated machine has processors for one.
    oneAtATime: true,
    signal,
    print: say,
    ended: (result) => {
      results.push(result)
      for (const line of [formatFile(result), ...formatTold(result), ...formatFailures(result)]) say(line)
    },
  })
  return results
}
