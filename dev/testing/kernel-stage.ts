/**
 * Runs test files on the test kernel, each in a process and in new namespaces of its own. Reads a
 * KernelStageTask as JSON and prints one line of JSON for each KernelStageMessage, and nothing
 * else. Several guests may share the files: the one that makes a file's folder first runs it.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { calibrate, type Calibration, DEADLINE_FACTOR_VARIABLE, deadlineFactor } from '../kernel/calibrate.ts'
import { inNamespaces } from '../kernel/host.ts'
import { runStage } from './stage.ts'
import { limitsFor } from './limits.ts'
import type { FileResult } from './result.ts'
import { ANSWERS_VARIABLE } from './variables.ts'

export interface KernelStageTask {
  /** A folder that all guests see. */
  readonly claims: string
  /** In the order for a fast kernel: the longest first. */
  readonly files: readonly string[]
  /** See `limitsFor`. */
  readonly mayLeaveOut: boolean
  /** Whether a file begins only when the one before has ended: for files that change what namespaces share. */
  readonly oneAtATime: boolean
  /**
   * Whether each file runs in new namespaces; else in the first ones of the kernel, which only
   * there has some of its settings.
   */
  readonly isolated: boolean
}

export type KernelStageMessage =
  | { readonly kind: 'kernel'; readonly calibration: Calibration }
  | { readonly kind: 'begun'; readonly file: string }
  | { readonly kind: 'ended'; readonly result: FileResult }

const { claims, files, mayLeaveOut, oneAtATime, isolated } = JSON.parse(process.argv[2] ?? '') as KernelStageTask // written by kernel-run.ts
const send = (message: KernelStageMessage): void => void process.stdout.write(`${JSON.stringify(message)}\n`)
const stopped = new AbortController()
process.once('SIGTERM', () => stopped.abort())

const calibration = calibrate()
send({ kind: 'kernel', calibration })
const factor = deadlineFactor(calibration, process.env)
const { fileMs, beginWithinMs } = limitsFor(factor, mayLeaveOut)
const answers = mkdtempSync(join(tmpdir(), 'kube-ipvs-answers-'))
await runStage({
  batches: claimed(),
  cwd: process.cwd(),
  // Most of them wait for the kernel or for a timer most of the time.
  concurrency: oneAtATime ? 1 : 4 * availableParallelism(),
  fileTimeoutMs: fileMs,
  signal: stopped.signal,
  env: {
    [DEADLINE_FACTOR_VARIABLE]: String(factor),
    // Files that run alone may change what the kernel has: its modules, its first namespaces.
    ...(oneAtATime ? {} : { [ANSWERS_VARIABLE]: answers }),
  },
  wrap: isolated ? inNamespaces : (command) => command,
  ended: (result) => send({ kind: 'ended', result }),
})
rmSync(answers, { recursive: true })

/** The files that no other guest has claimed, a process for each; each is claimed when the caller takes it. */
function* claimed(): Generator<readonly string[]> {
  // When there may be no time for all of them, the shortest start first, so that as many as possible run.
  const order = beginWithinMs === undefined ? files : files.toReversed()
  for (const file of order) {
    if (beginWithinMs !== undefined && performance.now() > beginWithinMs) return
    if (!claim(encodeURIComponent(file))) continue
    send({ kind: 'begun', file })
    yield [file]
  }
}

function claim(name: string): boolean {
  try {
    mkdirSync(join(claims, name))
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  }
}
