/**
 * `npm test`: unit, property and watch tests on this machine, then the kernel tests on a kernel with IPVS, and one sum.
 * What could break: the last line is `N passed, M failed, K skipped` and the exit code is 0 only if something passed
 * and nothing failed; a kernel that does not start is a failure.
 */
import { globSync, mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { bundle } from './bundle.ts'
import { chosenKernel, describeKernel, type KernelChoice } from './kernel/choice.ts'
import { runInKernel } from './kernel/run.ts'
import { type FileResult, formatFailures, formatFile, formatTotals, totalsOf } from './testing/result.ts'
import { runStage } from './testing/stage.ts'
import { endWithParent } from './parent.ts'

const project = join(import.meta.dirname, '..')
const kernelTimeoutMs = 12 * 60_000
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

/** On a kernel that was told to have no IPv6. */
const isWithoutIpv6 = (file: string): boolean => file.startsWith('test/kernel/no-ipv6/')
const isKernelTest = (file: string): boolean => file.startsWith('test/kernel/')
const files = globSync('test/**/*.test.ts', { cwd: project })
  .filter((file) => patterns.length === 0 || patterns.some((pattern) => file.includes(pattern)))
  .sort()
const startedAt = performance.now()
const hostFiles = files.filter((file) => !isKernelTest(file))
if (!flags.includes('--kernel-only') && hostFiles.length > 0) {
  print(`${hostFiles.length} files on this machine`)
  await runStage({
    files: hostFiles,
    cwd: project,
    concurrency: Math.min(4, availableParallelism()),
    fileTimeoutMs: 300_000,
    signal: stopped.signal,
    wrap: (command) => command,
    ended,
  })
}
/** Those that take a minute come first, or the last of them would run alone at the end. */
const LONGEST = /\/(guard|daemon|config-reload|traffic-scaling|traffic-established)\.test\.ts$/
const kernelFiles = files.filter(isKernelTest).sort((a, b) => Number(LONGEST.test(b)) - Number(LONGEST.test(a)))
const skipKernel = process.env['KUBE_IPVS_SKIP_KERNEL'] === '1'
if (!flags.includes('--host-only') && kernelFiles.length > 0 && !stopped.signal.aborted) {
  const choice = chosenKernel(process.env)
  if (choice !== undefined) await runKernelFiles(choice)
  else if (!skipKernel) fail('(kernel tests)', 'no kernel was chosen: run this as npm test')
  else for (const file of kernelFiles) ended(notRun(file))
}

if (stopped.signal.aborted) fail('(all)', 'stopped before the end')
const totals = totalsOf(results)
print(`${results.length} files in ${((performance.now() - startedAt) / 1000).toFixed(0)} s`)
for (const line of formatTotals(totals)) print(line)
process.exitCode = totals.failed === 0 && totals.passed > 0 ? 0 : 1

async function runKernelFiles(choice: KernelChoice): Promise<void> {
  print(`${kernelFiles.length} files on ${describeKernel(choice)}`)
  // The bundle starts in a fraction of the time, and it is what the image holds.
  const env = { ...process.env, KUBE_IPVS_PROGRAM: (await bundle()).entry }
  await runOneBoot(
    choice,
    env,
    kernelFiles.filter((file) => !isWithoutIpv6(file)),
  )
  const withoutIpv6 = kernelFiles.filter(isWithoutIpv6)
  if (choice.kind !== 'host') await runOneBoot(choice, env, withoutIpv6, ['ipv6.disable=1'])
  else for (const file of withoutIpv6) ended(notRun(file))
}

/** These files on the kernel, booted with these parameters. */
async function runOneBoot(
  choice: KernelChoice,
  env: NodeJS.ProcessEnv,
  files: readonly string[],
  kernelParameters: readonly string[] = [],
): Promise<void> {
  if (files.length === 0 || stopped.signal.aborted) return
  // Debian's user-mode Linux has one processor: two of them share the work where this machine has more.
  const guests = choice.kind === 'uml' && choice.modules !== undefined ? Math.min(2, availableParallelism()) : 1
  const claims = mkdtempSync(join(tmpdir(), 'kube-ipvs-claims-'))
  const seen = new Set<string>()
  try {
    await Promise.all(
      Array.from({ length: guests }, () => runGuest({ choice, claims, env, files, kernelParameters, seen })),
    )
  } finally {
    rmSync(claims, { recursive: true })
  }
  for (const file of files) if (!seen.has(file)) fail(file, 'it was not run to its end')
}

interface GuestRun {
  readonly choice: KernelChoice
  readonly claims: string
  readonly env: NodeJS.ProcessEnv
  readonly files: readonly string[]
  readonly kernelParameters: readonly string[]
  /** Takes the files that were run. */
  readonly seen: Set<string>
}

/** Boots the kernel once and runs there the files that no other guest has claimed. */
async function runGuest({ choice, claims, env, files, kernelParameters, seen }: GuestRun): Promise<void> {
  let partial = ''
  let errors = ''
  try {
    const code = await runInKernel(choice, {
      command: [process.execPath, 'dev/testing/kernel-stage.ts', claims, ...files],
      cwd: project,
      env,
      kernelParameters,
      timeoutMs: kernelTimeoutMs,
      signal: stopped.signal,
      stdout: (chunk) => {
        const lines = (partial + chunk.toString()).split('\n')
        partial = lines.pop() ?? ''
        for (const line of lines) receive(line, seen)
      },
      stderr: (chunk) => {
        errors = (errors + chunk.toString()).slice(-10_000)
      },
    })
    if (code !== 0) fail('(kernel tests)', `the run on the kernel ended with exit code ${code}\n${errors}`)
  } catch (error) {
    fail('(kernel tests)', error instanceof Error ? error.message : String(error))
  }
}

/** A line from `kernel-stage.ts`: the kernel's release first, then a result for each file. */
function receive(line: string, seen: Set<string>): void {
  const message = JSON.parse(line) as { release: string } | FileResult // our own program's
  if ('release' in message) {
    print(`kernel ${message.release}`)
    return
  }
  seen.add(message.file)
  ended(message)
}

function fail(file: string, text: string): void {
  ended({ ...notRun(file), unmet: [], failures: [{ name: '(run)', text }] })
}

/** A file left out on request: at least one test of it has not run. */
function notRun(file: string): FileResult {
  return { file, passed: 0, failures: [], skipped: 0, unmet: ['a kernel'], output: '', durationMs: 0 }
}
