/**
 * Runs test files on the test kernel, each in new namespaces. Reads a KernelStageTask as JSON and prints one line of JSON
 * for each KernelStageMessage, and nothing else. Several guests may share the files: the one that makes a file's folder
 * first runs it.
 */
import { mkdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { calibrate, type Calibration, DEADLINE_FACTOR_VARIABLE, deadlineFactor } from '../kernel/calibrate.ts'
import { inNamespaces } from '../kernel/host.ts'
import { runStage } from './file-run.ts'
import { limitsFor } from './limits.ts'
import type { FileResult } from './result.ts'

export interface KernelStageTask {
  /** A folder that all guests see. */
  readonly claims: string
  /** In the order for a fast kernel: the longest first. */
  readonly files: readonly string[]
  /** See `limitsFor`. */
  readonly mayLeaveOut: boolean
  /** Whether a file begins only when the one before has ended: for files that change what namespaces share. */
  readonly oneAtATime: boolean
}

export type KernelStageMessage =
  | { readonly kind: 'kernel'; readonly calibration: Calibration }
  | { readonly kind: 'begun'; readonly file: string }
  | { readonly kind: 'ended'; readonly result: FileResult }

const { claims, files, mayLeaveOut, oneAtATime } = JSON.parse(process.argv[2] ?? '') as KernelStageTask // written by kernel-run.ts
const send = (message: KernelStageMessage): void => void process.stdout.write(`${JSON.stringify(message)}\n`)
const stopped = new AbortController()
process.once('SIGTERM', () => stopped.abort())

const calibration = calibrate()
send({ kind: 'kernel', calibration })
const factor = deadlineFactor(calibration, process.env)
const { fileMs, beginWithinMs } = limitsFor(factor, mayLeaveOut)
await runStage({
  files: claimed(),
  cwd: process.cwd(),
  // Most of them wait for the kernel or for a timer most of the time.
  concurrency: oneAtATime ? 1 : 2 * availableParallelism(),
  fileTimeoutMs: fileMs,
  signal: stopped.signal,
  env: { [DEADLINE_FACTOR_VARIABLE]: String(factor) },
  wrap: inNamespaces,
  ended: (result) => send({ kind: 'ended', result }),
})

/** The files that no other guest has claimed; each is claimed when the caller takes it. */
function* claimed(): Generator<string> {
  // When there may be no time for all of them, the shortest start first, so that as many as possible run.
  const order = beginWithinMs === undefined ? files : files.toReversed()
  for (const file of order) {
    if (beginWithinMs !== undefined && performance.now() > beginWithinMs) return
    if (!claim(encodeURIComponent(file))) continue
    send({ kind: 'begun', file })
    yield file
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
