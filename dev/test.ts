/**
 * `npm test`: unit, property and watch tests on this machine, the kernel tests on a kernel with IPVS, and one sum. The last
 * line is `N passed, M failed, K skipped`, and the exit code is 0 only if something passed and nothing failed; a kernel that
 * does not start is a failure.
 */
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { bundle } from './bundle.ts'
import { assemble, joinLayers } from './image/assemble.ts'
import { architectureOf, IMAGE_VARIABLE } from './image/contents.ts'
import { calibrate, DEADLINE_FACTOR_VARIABLE, deadlineFactor, formatCalibration } from './kernel/calibrate.ts'
import { chosenKernel, describeKernel, type KernelChoice } from './kernel/choice.ts'
import { endWithParent } from './parent.ts'
import { Unmet } from './progress.mjs'
import { formatSlowest, longestFirst, readDurations, recordDurations } from './testing/durations.ts'
import { runStage } from './testing/file-run.ts'
import { runOnKernel } from './testing/kernel-run.ts'
import { limitsFor } from './testing/limits.ts'
import {
  failedRun,
  type FileResult,
  formatFailures,
  formatFile,
  formatLeftOut,
  formatTotals,
  formatUnsteady,
  notRun,
  totalsOf,
} from './testing/result.ts'

const project = join(import.meta.dirname, '..')
const durationsFile = join(project, '.cache/test-durations.json')
/** For a first run: a record of one run on a slow machine, of the files that took over 20 s. Only the order counts. */
const knownDurationsFile = join(import.meta.dirname, 'testing/durations.json')
const print = (line: string): boolean => process.stdout.write(`${line}\n`)

const flags = process.argv.slice(2).filter((arg) => arg.startsWith('--'))
const patterns = process.argv.slice(2).filter((arg) => !arg.startsWith('--'))
const unknown = flags.filter((flag) => flag !== '--host-only' && flag !== '--kernel-only')
if (unknown.length > 0) {
  process.stderr.write(`unknown option ${unknown.join(' ')}; npm test -- --help lists them\n`)
  process.exit(1)
}

const stopped = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => stopped.abort())
endWithParent(stopped)

/** With more failed files than this, the failures are not caused by a busy machine. */
const MAX_SECOND_RUNS = 3
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
  { ...readDurations(knownDurationsFile), ...readDurations(durationsFile) },
  project,
)
const hostFiles = flags.includes('--kernel-only') ? [] : files.filter((file) => !isKernelTest(file))
const kernelFiles = flags.includes('--host-only') ? [] : files.filter(isKernelTest)
const startedAt = performance.now()
const secondsSince = (fromMs: number): string => ((performance.now() - fromMs) / 1000).toFixed(0)

if (hostFiles.length > 0) await runHostFiles(hostFiles)
const leftOut = kernelFiles.length > 0 && !stopped.signal.aborted ? await runKernelFiles(kernelFiles) : []
recordDurations(durationsFile, results)
const unsteady = stopped.signal.aborted ? [] : await runFailedAgain()
if (stopped.signal.aborted) ended(failedRun('(all)', 'stopped before the end'))
const totals = totalsOf(results)
print(formatSlowest(results, 5))
print(`${results.length} files in ${secondsSince(startedAt)} s`)
for (const line of [...formatLeftOut(leftOut), ...formatUnsteady(unsteady), ...formatTotals(totals)]) print(line)
process.exitCode = totals.failed === 0 && totals.passed > 0 ? 0 : 1

/**
 * A machine that is busy with other work makes a test miss its deadline now and then. A few files that failed therefore run
 * once more, without the others beside them, and the second result counts. Returns those that passed only then: they are
 * listed at the end of the run, and the first failure stays above.
 */
async function runFailedAgain(): Promise<readonly string[]> {
  const failed = results.filter((result) => result.failures.length > 0)
  const names = failed.map(({ file }) => file)
  if (failed.length === 0 || failed.length > MAX_SECOND_RUNS || !names.every((name) => files.includes(name))) return []
  print(`${names.length === 1 ? 'A file has' : `${names.length} files have`} failed and will run once more, alone`)
  for (const result of failed) results.splice(results.indexOf(result), 1)
  const host = names.filter((file) => !isKernelTest(file))
  const kernel = names.filter(isKernelTest)
  if (host.length > 0) await runHostFiles(host)
  if (kernel.length > 0) await runKernelFiles(kernel)
  return names.filter((name) => results.some(({ file, failures }) => file === name && failures.length === 0))
}

async function runHostFiles(files: readonly string[]): Promise<void> {
  const calibration = calibrate()
  const factor = deadlineFactor(calibration, process.env)
  print(`${files.length} files on this machine`)
  print(`${formatCalibration(calibration)}; deadlines x ${factor}`)
  const stageStartedAt = performance.now()
  await runStage({
    files: files,
    cwd: project,
    concurrency: Math.min(4, availableParallelism()),
    fileTimeoutMs: limitsFor(factor, false).fileMs,
    signal: stopped.signal,
    env: { [DEADLINE_FACTOR_VARIABLE]: String(factor) },
    wrap: (command) => command,
    ended,
  })
  print(`${files.length} files on this machine in ${secondsSince(stageStartedAt)} s`)
}

/** Returns the files that were left out. */
async function runKernelFiles(files: readonly string[]): Promise<readonly string[]> {
  const choice = chosenKernel(process.env)
  if (choice !== undefined) return runFilesOn(choice, files)
  if (process.env['KUBE_IPVS_SKIP_KERNEL'] === '1') for (const file of files) ended(notRun(file, 'a kernel'))
  else ended(failedRun('(kernel tests)', 'no kernel was chosen: run this as npm test'))
  return []
}

async function runFilesOn(choice: KernelChoice, files: readonly string[]): Promise<readonly string[]> {
  const image = mkdtempSync(join(tmpdir(), 'kube-ipvs-image-'))
  try {
    // The bundle starts in a fraction of the time, and it is what the image holds.
    const program = { KUBE_IPVS_PROGRAM: (await bundle()).entry }
    const root = files.some(usesImage) ? await imageRoot(image) : undefined
    print(`${files.length} files on ${describeKernel(choice)}`)
    return await runOnKernel({
      choice,
      files,
      cwd: project,
      env: { ...process.env, ...program, ...(root === undefined ? {} : { [IMAGE_VARIABLE]: root }) },
      mayLeaveOut: patterns.length === 0 && process.env['CI'] !== 'true',
      signal: stopped.signal,
      print,
      ended,
    })
  } finally {
    rmSync(image, { recursive: true, force: true })
  }
}

function usesImage(file: string): boolean {
  return /\bneeds\([^)]*'image'/.test(readFileSync(join(project, file), 'utf8'))
}

/** Assembles the image, which a guest could not: it has no network. Undefined, with a printed reason, where this machine cannot. */
async function imageRoot(folder: string): Promise<string | undefined> {
  try {
    await assemble({ arch: architectureOf(process.arch), into: folder, env: process.env, epochSeconds: 0 })
    const root = join(folder, 'root')
    await joinLayers(folder, root)
    return root
  } catch (error) {
    if (!(error instanceof Unmet)) throw error
    print(`The image could not be assembled, and its tests will not run: ${error.message}`)
    return undefined
  }
}
