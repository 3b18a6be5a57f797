/** Runs batches of test files, a few at a time, each batch in a process of its own. */
import { runTestProcess, type TestProcess } from './test-process.ts'

export interface Stage extends Omit<TestProcess, 'files'> {
  /** Taken one by one, each when a worker is free. */
  readonly batches: Iterable<readonly string[]>
  /** How many processes run at the same time. */
  readonly concurrency: number
}

/**
 * Reports every file of the batches that were taken. Files that a dead process had not begun run in
 * processes of their own.
 */
export async function runStage({ batches, concurrency, ...run }: Stage): Promise<void> {
  const waiting = batches[Symbol.iterator]()
  const worker = async (): Promise<void> => {
    while (!run.signal.aborted) {
      const next = waiting.next()
      if (next.done === true) return
      const rest = await runTestProcess({ ...run, files: next.value })
      for (const file of rest) if (!run.signal.aborted) await runTestProcess({ ...run, files: [file] })
    }
  }
  await Promise.all(Array.from({ length: concurrency }, worker))
}
