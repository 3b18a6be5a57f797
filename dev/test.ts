/**
 * `npm test`: unit, property and watch tests on this machine, the kernel tests on a kernel with IPVS, and one sum. The last
 * line is `N passed, M failed, K skipped`, and the exit code is 0 only if something passed and nothing failed; a kernel that
 * does not start is a failure.
 */
import { globSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { bundle } from './bundle.ts'
import { calibrate, DEADLINE_FACTOR_VARIABLE, deadlineFactor, formatCalibration } from './kernel/calibrate.ts'
import { chosenKernel, describeKernel, type KernelChoice } from './kernel/choice.ts'
import { endWithParent } from './parent.ts'
import { formatSlowest, longestFirst, readDurations, recordDurations } from './testing/durations.ts'
import { runOnKernel } from './testing/kernel-run.ts'
import { limitsFor } from './testing/limits.ts'
import {
  failedRun,
  type FileResult,
  formatFailures,
  formatFile,
  formatLeftOut,
  formatTotals,
  notRun,
  totalsOf,
} from './testing/result.ts'
import { runStage } from './testing/stage.ts'

const project = join(import.meta.dirname, '..')
const durationsFile = join(project, '.cache/test-durations.json')
const print = (line: string): boolean => process.stdout.write(`${line}\n`)

const flags = process.argv.slice(2).filter((arg) => arg.startsWith('--'))
const patterns = process.argv.slice(2).filter((arg) => !arg.startsWith('--'))
const unknown = flags.filter((flag) => flag !== '--host-only' && flag !== '--kernel-only')
if (unknown.length > 0) {
  process.stderr.write(`unknown option ${unknown.join(' ')}; npm test -- --help tells which there are\n`)
  process.exit(1)
}

const stopped = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => stopped.abort())
endWithParent(stopped)

const results: FileResult[] = []
const ended = (result: FileResult): void => {
  results.push(result)
  print(formatFile(result))
  for (const line of formatFailures(result)) print(line)
}

const isKernelTest = (file: string): boolean => file.startsWith('test/kernel/')
const files = longestFirst(
  globSync('test/**/*.test.ts', { cwd: project }).filter(
    (file) => patterns.length === 0 || patterns.some((pattern) => file.includes(pattern)),
  ),
  readDurations(durationsFile),
  project,
)
const hostFiles = flags.includes('--kernel-only') ? [] : files.filter((file) => !isKernelTest(file))
const kernelFiles = flags.includes('--host-only') ? [] : files.filter(isKernelTest)
const startedAt = performance.now()
const secondsSince = (fromMs: number): string => ((performance.now() - fromMs) / 1000).toFixed(0)

if (hostFiles.length > 0) await runHostFiles()
const leftOut = kernelFiles.length > 0 && !stopped.signal.aborted ? await runKernelFiles() : []
if (stopped.signal.aborted) ended(failedRun('(all)', 'stopped before the end'))
recordDurations(durationsFile, results)
const totals = totalsOf(results)
print(formatSlowest(results, 5))
print(`${results.length} files in ${secondsSince(startedAt)} s`)
for (const line of [...formatLeftOut(leftOut), ...formatTotals(totals)]) print(line)
process.exitCode = totals.failed === 0 && totals.passed > 0 ? 0 : 1

async function runHostFiles(): Promise<void> {
  const calibration = calibrate()
  const factor = deadlineFactor(calibration, process.env)
  print(`${hostFiles.length} files on this machine`)
  print(`${formatCalibration(calibration)}; deadlines x ${factor}`)
  const stageStartedAt = performance.now()
  await runStage({
    files: hostFiles,
    cwd: project,
    concurrency: Math.min(4, availableParallelism()),
    fileTimeoutMs: limitsFor(factor, false).fileMs,
    signal: stopped.signal,
    env: { [DEADLINE_FACTOR_VARIABLE]: String(factor) },
    wrap: (command) => command,
    ended,
  })
  print(`${hostFiles.length} files on this machine in ${secondsSince(stageStartedAt)} s`)
}

/** Returns the files that were left out. */
async function runKernelFiles(): Promise<readonly string[]> {
  const choice = chosenKernel(process.env)
  if (choice !== undefined) return runFilesOn(choice)
  if (process.env['KUBE_IPVS_SKIP_KERNEL'] === '1') for (const file of kernelFiles) ended(notRun(file, 'a kernel'))
  else ended(failedRun('(kernel tests)', 'no kernel was chosen: run this as npm test'))
  return []
}

async function runFilesOn(choice: KernelChoice): Promise<readonly string[]> {
  print(`${kernelFiles.length} files on ${describeKernel(choice)}`)
  return runOnKernel({
    choice,
    files: kernelFiles,
    cwd: project,
    // The bundle starts in a fraction of the time, and it is what the image holds.
    env: { ...process.env, KUBE_IPVS_PROGRAM: (await bundle()).entry },
    mayLeaveOut: patterns.length === 0 && process.env['CI'] !== 'true',
    signal: stopped.signal,
    print,
    ended,
  })
}
