/**
 * `npm run bench`: for each size boots the kernel twice, once for the floor and once for the program, and prints a table
 * or one JSON object a line. Progress goes to stderr.
 * What could break: deleted destinations slow the kernel down for two minutes, so nothing is measured in a used kernel.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { compileFloor, parseFloor } from './bench/floor.ts'
import type { GuestTask } from './bench/guest.ts'
import type { Measured } from './bench/measure.ts'
import { type BenchOptions, parseBenchOptions } from './bench/options.ts'
import { type BenchResult, formatJson, formatResults } from './bench/result.ts'
import { bundle } from './bundle.ts'
import { CHOICE_VARIABLE, chosenKernel, describeKernel, type KernelChoice } from './kernel/choice.ts'
import { runInKernel } from './kernel/run.ts'

const ROOT = join(import.meta.dirname, '..')
/** Processes that want to run before we start any. */
const BUSY_LOAD = 0.5
const FLOOR_TIMEOUT_MS = 300_000

const say = (text: string): void => {
  process.stderr.write(`${text}\n`)
}

async function main(args: readonly string[]): Promise<number> {
  const options = parseBenchOptions(args)
  if ('error' in options) {
    say(options.error)
    return 2
  }
  const choice = chosenKernel(process.env)
  if (choice === undefined) {
    say(`The bench needs a kernel with IPVS (${CHOICE_VARIABLE} is empty): run it as npm run bench.`)
    return 1
  }
  say(`Kernel: ${describeKernel(choice)}`)
  const [load = 0] = loadavg()
  if (load > BUSY_LOAD) say(`Other work runs on this machine (load ${load.toFixed(1)}): all times will be too long.`)
  const abort = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => abort.abort())
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-bench-'))
  // Inside the repository: the bundle finds koffi in its node_modules.
  mkdirSync(join(ROOT, '.cache'), { recursive: true })
  const bundled = mkdtempSync(join(ROOT, '.cache/bench-'))
  try {
    await runSizes(options, choice, { folder, bundled }, abort.signal)
    return 0
  } catch (error) {
    if (abort.signal.aborted) return 130
    say(error instanceof Error ? error.message : String(error))
    return 1
  } finally {
    for (const path of [folder, bundled]) rmSync(path, { recursive: true, force: true })
  }
}

async function runSizes(
  options: BenchOptions,
  choice: KernelChoice,
  { folder, bundled }: { readonly folder: string; readonly bundled: string },
  signal: AbortSignal,
): Promise<void> {
  const floor = await compileFloor(folder, process.env)
  if ('missing' in floor) say(`No floor: ${floor.missing}`)
  const entry =
    options.proxy === undefined
      ? (await bundle({ directory: bundled, minify: options.profile === undefined })).entry
      : ''
  const results: BenchResult[] = []
  for (const services of options.sizes) {
    const floorMs =
      'missing' in floor ? null : await runFloor(floor.program, services, options.endpoints, choice, signal)
    say(`  ${services} x ${options.endpoints}: floor ${floorMs?.toFixed(1) ?? 'not measured'} ms`)
    const own = mkdtempSync(join(folder, 'size-'))
    const measured = await runMeasurement(taskOf(options, services, own, entry), choice, signal)
    const result = { ...measured, floorMs, floorRatio: ratio(measured.coldStartMs, floorMs) }
    results.push(result)
    if (options.output === 'json') process.stdout.write(`${formatJson(result)}\n`)
  }
  if (options.output === 'text') process.stdout.write(`${formatResults(results)}\n`)
}

function taskOf(options: BenchOptions, services: number, folder: string, entry: string): GuestTask {
  const { endpoints, changes, idleSeconds, slope, nodeFlags, proxy, profile } = options
  return {
    services,
    endpoints,
    changes,
    idleSeconds,
    slope,
    nodeFlags,
    folder,
    entry,
    ...(proxy === undefined ? {} : { proxy }),
    ...(profile === undefined ? {} : { profile }),
  }
}

async function runFloor(
  program: string,
  services: number,
  endpoints: number,
  choice: KernelChoice,
  signal: AbortSignal,
): Promise<number | null> {
  const { code, stdout } = await runToEnd(
    [program, String(services), String(endpoints)],
    FLOOR_TIMEOUT_MS,
    choice,
    signal,
  )
  if (code !== 0) say(`the floor program ended with code ${code}`)
  return parseFloor(stdout)
}

async function runMeasurement(task: GuestTask, choice: KernelChoice, signal: AbortSignal): Promise<Measured> {
  const command = [process.execPath, join(ROOT, 'dev/bench/guest.ts'), JSON.stringify(task)]
  const timeoutMs = 1_200_000 + task.idleSeconds * 1000 + (task.slope ? 3_600_000 : 0)
  const { code, stdout } = await runToEnd(command, timeoutMs, choice, signal)
  if (code !== 0) throw new Error(`the measurement of ${task.services} Services ended with code ${code}`)
  return JSON.parse(stdout) as Measured // written by bench/guest.ts
}

/** Its stderr is ours. */
async function runToEnd(
  command: readonly string[],
  timeoutMs: number,
  choice: KernelChoice,
  signal: AbortSignal,
): Promise<{ readonly code: number; readonly stdout: string }> {
  signal.throwIfAborted()
  let stdout = ''
  const code = await runInKernel(choice, {
    command,
    cwd: ROOT,
    env: process.env,
    timeoutMs,
    signal,
    stdout: (chunk) => {
      stdout += chunk.toString()
    },
    stderr: (chunk) => process.stderr.write(chunk),
  })
  signal.throwIfAborted()
  return { code, stdout }
}

const ratio = (coldStartMs: number | null, floorMs: number | null): number | null =>
  coldStartMs === null || floorMs === null ? null : coldStartMs / floorMs

process.exit(await main(process.argv.slice(2)))
