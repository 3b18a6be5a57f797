/** Runs a list of test files, a few at a time, and tells of each as it ends: in that order, not in that of the list. */
import { runTestFile } from './file-run.ts'
import type { FileResult } from './result.ts'

export interface Stage {
  /** Taken one by one, when there is a worker for it. */
  readonly files: Iterable<string>
  readonly cwd: string
  readonly concurrency: number
  readonly fileTimeoutMs: number
  readonly signal: AbortSignal
  /** Added to the environment of each file. */
  readonly env: Readonly<Record<string, string>>
  wrap(command: readonly string[]): readonly string[]
  ended(result: FileResult): void
}

export async function runStage(stage: Stage): Promise<void> {
  const waiting = stage.files[Symbol.iterator]()
  const worker = async (): Promise<void> => {
    while (!stage.signal.aborted) {
      const next = waiting.next()
      if (next.done === true) return
      const { cwd, signal, fileTimeoutMs: timeoutMs, env, wrap } = stage
      stage.ended(await runTestFile({ file: next.value, cwd, timeoutMs, signal, env, wrap }))
    }
  }
  await Promise.all(Array.from({ length: stage.concurrency }, worker))
}
