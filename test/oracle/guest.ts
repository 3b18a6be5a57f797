/**
 * The part of the oracle that runs on the test kernel: gives the cases to workers and prints one
 * line of JSON for each, and nothing else, on stdout.
 */
import { availableParallelism } from 'node:os'
import { groundOf } from './case-file.ts'
import { readStateDeviations } from './deviations.ts'
import type { Mode, StateFile } from './files.ts'
import type { CaseResult } from './result.ts'
import type { CaseTask } from './run-case.ts'
import { runCrew } from './workers.ts'

/** The task from the host, as one argument of JSON. */
export interface GuestTask {
  readonly cases: string
  readonly defaultCases: string
  /** Names of the cases to run, each recorded in `mode`. */
  readonly names: readonly string[]
  readonly entry: string
  readonly compared: readonly StateFile[]
  readonly mode: Mode
  readonly output?: string
  /** Whether the kernel is used by this run only, so that kernel-wide values may be set. */
  readonly ownKernel: boolean
}

/** One more than the processors, because a case mostly waits. */
const WORKERS = Math.min(3, availableParallelism() + 1)

const task = JSON.parse(process.argv[2] ?? '') as GuestTask // written by main.ts
const stopped = new AbortController()
process.once('SIGTERM', () => stopped.abort())

const tasks = task.names.map((name): CaseTask => {
  const ground = task.ownKernel ? groundOf(task.cases, name) : 'fresh'
  return { name, mode: task.mode, ground }
})
const setting = { ...task, deviations: readStateDeviations().filter(({ mode = 'ipvs' }) => mode === task.mode) }
const ended = (result: CaseResult): void => void process.stdout.write(`${JSON.stringify(result)}\n`)
const { signal } = stopped
const [kernel, fresh] = (['kernel', 'fresh'] as const).map((ground) => tasks.filter((one) => one.ground === ground))
await runCrew({ tasks: fresh ?? [], size: WORKERS, isolated: true, setting, signal, ended })
await runCrew({ tasks: kernel ?? [], size: 1, isolated: false, setting, signal, ended })
process.exit(0)
