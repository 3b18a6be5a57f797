/**
 * `npm test`: unit, property and watch tests on this machine, the kernel tests on a kernel with
 * IPVS, and one sum; with --all, as in CI, also every scheduler and what was recorded of
 * kube-proxy. The last line is `N passed, M failed, K skipped`, and the exit code is 0 only if
 * something passed and nothing failed; a kernel that does not start is a failure.
 */
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { assemble, joinLayers } from './image/assemble.ts'
import { architectureOf, IMAGE_VARIABLE } from './image/contents.ts'
import { calibrate, DEADLINE_FACTOR_VARIABLE, deadlineFactor, formatCalibration } from './kernel/calibrate.ts'
import { chosenKernel, describeKernel, type KernelChoice } from './kernel/choice.ts'
import { endWithParent } from './parent.ts'
import { Unmet } from './progress.mjs'
import { Stopwatch } from './testing/cpu-time.ts'
import { batchesOf, formatSlowest, longestFirst, readDurations, recordDurations } from './testing/durations.ts'
import { hasDirective, runsOf } from './testing/directives.ts'
import { FULL_RUN_VARIABLE, isChosen } from './testing/extent.ts'
import { withFirewalls } from './testing/firewalls.ts'
import { runOnKernel } from './testing/kernel-run.ts'
import { limitsFor } from './testing/limits.ts'
import { makePrograms } from './testing/programs.ts'
import { RECORDED_SURFACES, recordedCases } from './testing/recordings.ts'
import {
  failedRun,
  type FileResult,
  formatFailures,
  formatFile,
  formatLeftOut,
  formatTold,
  formatTotals,
  notRun,
  totalsOf,
} from './testing/result.ts'
import { SEED_VARIABLE, seedOf } from './testing/seed.ts'
import { runStage } from './testing/stage.ts'
import {
  formatSteadiness,
  isForgiven,
  judgeSecondRun,
  parseHistory,
  parseKnownList,
  remember,
  type Steadiness,
} from './testing/unsteady.ts'

const project = join(import.meta.dirname, '..')
const durationsFile = join(project, '.cache/test-durations.json')
/** For a first run: a record of one run, of the files that took longest. Only the proportions count. */
const knownDurationsFile = join(import.meta.dirname, 'testing/durations.json')
const knownUnsteadyFile = 'test/unsteady.txt'
const historyFile = join(project, '.cache/unsteady.json')
const print = (line: string): boolean => process.stdout.write(`${line}\n`)

const FLAGS = ['--host-only', '--kernel-only', '--all', '--new-seed'] as const
const flags = process.argv.slice(2).filter((arg) => arg.startsWith('--'))
const patterns = process.argv.slice(2).filter((arg) => !arg.startsWith('--'))
const unknown = flags.filter((flag) => !FLAGS.some((known) => known === flag))
if (unknown.length > 0) {
  process.stderr.write(`unknown option ${unknown.join(' ')}; npm test -- --help lists them\n`)
  process.exit(1)
}
const isCi = process.env['CI'] === 'true'
const isFull = isCi || flags.includes('--all')
const seed = seedOf(process.env, flags.includes('--new-seed'))
if (seed === undefined) {
  process.stderr.write(`${SEED_VARIABLE}=${process.env[SEED_VARIABLE]}: it must be a whole number below 2147483648\n`)
  process.exit(1)
}
if (flags.includes('--new-seed')) print(`property tests with ${SEED_VARIABLE}=${seed}`)
/** What every test process finds in its environment. */
const settings = { [SEED_VARIABLE]: String(seed), ...(isFull ? { [FULL_RUN_VARIABLE]: '1' } : {}) }

const stopped = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => stopped.abort())
endWithParent(stopped)

/** With more failed files than this, the failures are not caused by a busy machine. */
const MAX_SECOND_RUNS = 3
/** The processes of the stage on this machine: many tests wait for timers. */
const HOST_PROCESSES = 2 * availableParallelism()

const results: FileResult[] = []
const ended = (result: FileResult): void => {
  results.push(result)
  print(formatFile(result))
  const told = patterns.length > 0 || result.failures.length > 0 ? formatTold(result) : []
  for (const line of [...told, ...formatFailures(result)]) print(line)
}

const isKernelTest = (file: string): boolean => file.startsWith('test/kernel/') || recordedCases().includes(file)
const durations = { ...readDurations(knownDurationsFile), ...readDurations(durationsFile) }
const files = longestFirst(
  [
    ...withFirewalls(
      globSync('test/**/*.test.ts', { cwd: project }).flatMap((file) => runsOf(file, project)),
      isFull,
    ),
    ...(isFull ? [RECORDED_SURFACES, ...recordedCases()] : []),
  ].filter((file) => isChosen(file, patterns, isFull)),
  durations,
  project,
)
const hostFiles = flags.includes('--kernel-only') ? [] : files.filter((file) => !isKernelTest(file))
const kernelFiles = flags.includes('--host-only') ? [] : files.filter(isKernelTest)
const whole = new Stopwatch()
// A few files on this machine are sooner done with the sources.
const programs = kernelFiles.length > 0 || patterns.length === 0 ? await makePrograms() : undefined

if (hostFiles.length > 0) await runHostFiles(hostFiles)
const leftOut = kernelFiles.length > 0 && !stopped.signal.aborted ? await runKernelFiles(kernelFiles) : []
recordDurations(durationsFile, results)
const slowest = formatSlowest(results, 10)
const steadiness = stopped.signal.aborted ? [] : await judgeFailures()
programs?.remove()
if (stopped.signal.aborted) ended(failedRun('(all)', 'stopped before the end'))
const totals = totalsOf(results)
print(slowest)
print(`${results.length} files ${whole.text}`)
for (const line of [...formatLeftOut(leftOut), ...steadiness, ...formatTotals(totals)]) print(line)
process.exitCode = totals.failed === 0 && totals.passed > 0 ? 0 : 1

/**
 * A machine that is busy with other work makes a test miss its deadline now and then, and some
 * tests are not steady. A few files that failed therefore run once more, without the others beside
 * them; unsteady.ts says which of the two results counts. Returns lines for the end of the run.
 */
async function judgeFailures(): Promise<readonly string[]> {
  const known = readKnownUnsteady()
  for (const problem of known.problems) ended(failedRun(knownUnsteadyFile, problem))
  const failed = results.filter(({ file, failures }) => failures.length > 0 && files.includes(file))
  const history = existsSync(historyFile) ? parseHistory(readFileSync(historyFile, 'utf8')) : []
  const judged = new Map<string, Steadiness>()
  if (failed.length > MAX_SECOND_RUNS) print(`${failed.length} files have failed; with so many, none runs again`)
  else if (failed.length > 0) {
    print(`${failed.length === 1 ? 'A file has' : `${failed.length} files have`} failed and will run once more, alone`)
    for (const second of await runAgain(failed.map(({ file }) => file))) {
      const passed = second.failures.length === 0
      const verdict = judgeSecondRun({ file: second.file, passed }, known, history, isCi)
      judged.set(second.file, verdict)
      const index = results.findIndex(({ file }) => file === second.file)
      if (isForgiven(verdict) || verdict === 'broken') results.splice(index, 1, second)
    }
  }
  const unsteady = [...judged].filter(([, verdict]) => verdict !== 'broken').map(([file]) => file)
  if (patterns.length === 0 || unsteady.length > 0) writeHistory(JSON.stringify(remember(history, unsteady)))
  return formatSteadiness(judged)
}

/** Runs these files alone, prints their results and returns them; they do not count yet. */
async function runAgain(names: readonly string[]): Promise<readonly FileResult[]> {
  const first = results.splice(0)
  const host = names.filter((file) => !isKernelTest(file))
  const kernel = names.filter(isKernelTest)
  if (host.length > 0) await runHostFiles(host)
  if (kernel.length > 0) await runKernelFiles(kernel)
  const second = results.splice(0)
  results.push(...first, ...second.filter(({ file }) => !names.includes(file)))
  return second.filter(({ file }) => names.includes(file))
}

function readKnownUnsteady() {
  const isTest = (file: string): boolean => existsSync(join(project, file.replace(/\?.*/, '')))
  return parseKnownList(readFileSync(join(project, knownUnsteadyFile), 'utf8'), knownUnsteadyFile, Date.now(), isTest)
}

function writeHistory(text: string): void {
  try {
    mkdirSync(dirname(historyFile), { recursive: true })
    writeFileSync(historyFile, text)
  } catch {
    // This user may not write to the project.
  }
}

async function runHostFiles(files: readonly string[]): Promise<void> {
  const calibration = calibrate()
  const factor = deadlineFactor(calibration, process.env)
  print(`${files.length} files on this machine`)
  print(`${formatCalibration(calibration)}; deadlines x ${factor}`)
  const stage = new Stopwatch()
  await runStage({
    batches: [
      ...files.filter(isAlone).map((file) => [file]),
      ...batchesOf(
        files.filter((file) => !isAlone(file)),
        durations,
        HOST_PROCESSES,
      ),
    ],
    cwd: project,
    concurrency: HOST_PROCESSES,
    fileTimeoutMs: limitsFor(factor, false).fileMs,
    signal: stopped.signal,
    env: { ...settings, ...programs?.env, [DEADLINE_FACTOR_VARIABLE]: String(factor) },
    wrap: (command) => command,
    ended,
  })
  print(`${files.length} files on this machine ${stage.text}`)
}

/** It has a process of its own. */
function isAlone(file: string): boolean {
  return hasDirective(file, '@alone', project)
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
  const stage = new Stopwatch()
  try {
    const root = files.some(usesImage) ? await imageRoot(image) : undefined
    print(`${files.length} files on ${describeKernel(choice)}`)
    return await runOnKernel({
      choice,
      files,
      cwd: project,
      env: { ...process.env, ...settings, ...programs?.env, ...(root === undefined ? {} : { [IMAGE_VARIABLE]: root }) },
      mayLeaveOut: patterns.length === 0 && !isFull,
      signal: stopped.signal,
      print,
      ended,
    })
  } finally {
    rmSync(image, { recursive: true, force: true })
    print(`${files.length} files on a kernel with IPVS ${stage.text}`)
  }
}

function usesImage(file: string): boolean {
  return file.endsWith('.test.ts') && /\bneeds\([^)]*'image'/.test(readFileSync(join(project, file), 'utf8'))
}

/**
 * Assembles the image, which a guest could not: it has no network. Undefined, with a printed
 * reason, where this machine cannot.
 */
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
