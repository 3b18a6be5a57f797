/**
 * `npm run test:oracle`: replays the recorded cases of a folder on a real kernel, through the
 * program's API-server source; prints one line a case and last `N passed, M failed`. A run without
 * cases fails, and so does a case that did not end.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { bundle } from '../../dev/bundle.ts'
import { CHOICE_VARIABLE, chosenKernel, describeKernel, type KernelChoice } from '../../dev/kernel/choice.ts'
import { runInKernel } from '../../dev/kernel/run.ts'
import { endWithParent } from '../../dev/parent.ts'
import { recordingPath } from '../support/recordings.ts'
import { chooseCases } from './case-file.ts'
import { COMPARED, isStateFile, type Mode, MODES, STATE_FILES, type StateFile } from './files.ts'
import type { GuestTask } from './guest.ts'
import { type CaseResult, formatCase } from './result.ts'

const ROOT = join(import.meta.dirname, '../..')
const DEFAULT_CASES = recordingPath('cases')
const RUN_MS = 30 * 60_000

const print = (line: string): boolean => process.stdout.write(`${line}\n`)

async function main(args: readonly string[]): Promise<number> {
  const options = parseOracleOptions(args)
  if ('error' in options) return fail(options.error, 2)
  const cases = resolve(options.cases ?? DEFAULT_CASES)
  const { mode, patterns } = options
  const chosen = chooseCases(cases, mode, patterns)
  if ('error' in chosen) return fail(chosen.error, 1)
  const choice = chosenKernel(process.env)
  if (choice === undefined) return fail(`The oracle needs a kernel with IPVS (${CHOICE_VARIABLE} is empty).`, 1)
  const stopped = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => stopped.abort())
  endWithParent(stopped)
  print(`Cases of ${cases} on ${describeKernel(choice)}`)
  for (const name of chosen.incomplete) print(`The folder holds no ${name}/case.yaml, so that case is left out`)
  const startedMs = performance.now()
  const { results, trouble } = await runCases(cases, chosen.names, options, choice, stopped.signal)
  const expected = chosen.names.map((name) => `${name} (${mode})`)
  const seen = new Set(results.map((result) => `${result.name} (${result.mode})`))
  const lost = expected.filter((name) => !seen.has(name))
  for (const name of lost) print(`FAIL ${name}  it was not run to its end`)
  if (trouble !== '') print(trouble.trimEnd())
  const passed = results.filter(({ failures }) => failures.length === 0).length
  const failed = results.length - passed + lost.length
  print(`${expected.length} cases in ${((performance.now() - startedMs) / 1000).toFixed(0)} s`)
  print(`${passed} passed, ${failed} failed`)
  return failed === 0 && passed > 0 ? 0 : 1
}

interface OracleOptions {
  /** Folder of cases; absent: the project's. */
  readonly cases?: string
  /** Which files are compared; default COMPARED. */
  readonly compared: readonly StateFile[]
  /** The mode whose recordings are run. Default ipvs. */
  readonly mode: Mode
  /** Our state is written here. */
  readonly output?: string
  /** The program's log of a case that failed is shown. */
  readonly verbose: boolean
  /** Cases whose name contains one of these; none: all. `!TEXT`: without those whose name contains TEXT. */
  readonly patterns: readonly string[]
}

const USAGE = `npm run test:oracle [-- [--cases DIR] [--mode ipvs|iptables] [--compare FILE,...] [--output DIR] [--verbose] [[!]PATTERN...]]`

function parseOracleOptions(args: readonly string[]): OracleOptions | { readonly error: string } {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        cases: { type: 'string' },
        compare: { type: 'string', default: COMPARED.join() },
        mode: { type: 'string', default: 'ipvs' },
        output: { type: 'string' },
        verbose: { type: 'boolean', default: false },
      },
    })
    const { cases, output, verbose } = values
    const mode = MODES.find((one) => one === values.mode)
    if (mode === undefined) return { error: `--mode takes one of ${MODES.join()}` }
    const compared = values.compare.split(',')
    if (!compared.every(isStateFile)) return { error: `--compare takes some of ${STATE_FILES.join()}` }
    return {
      ...(cases === undefined ? {} : { cases }),
      ...(output === undefined ? {} : { output }),
      compared,
      mode,
      verbose,
      patterns: positionals,
    }
  } catch (error) {
    return { error: `${error instanceof Error ? error.message : String(error)}\n${USAGE}` }
  }
}

function fail(message: string, code: number): number {
  process.stderr.write(`${message}\n`)
  return code
}

/** `trouble`: why the run as a whole failed, else ''. */
async function runCases(
  cases: string,
  names: readonly string[],
  options: OracleOptions,
  choice: KernelChoice,
  signal: AbortSignal,
): Promise<{ readonly results: readonly CaseResult[]; readonly trouble: string }> {
  const results: CaseResult[] = []
  const output = options.output === undefined ? {} : { output: resolve(options.output) }
  if (output.output !== undefined) mkdirSync(output.output, { recursive: true })
  // Inside the repository, where the bundle finds koffi, and only for this run: another run may be building its own.
  mkdirSync(join(ROOT, '.cache'), { recursive: true })
  const directory = mkdtempSync(join(ROOT, '.cache/oracle-'))
  const ownKernel = choice.kind !== 'host'
  const { compared, mode, verbose } = options
  let partial = ''
  let errors = ''
  try {
    const { entry } = await bundle({ directory })
    const task: GuestTask = {
      cases,
      defaultCases: DEFAULT_CASES,
      names,
      entry,
      compared,
      mode,
      ownKernel,
      ...output,
    }
    const code = await runInKernel(choice, {
      command: [process.execPath, 'test/oracle/guest.ts', JSON.stringify(task)],
      cwd: ROOT,
      env: process.env,
      timeoutMs: RUN_MS,
      signal,
      stdout: (chunk) => {
        const lines = (partial + chunk.toString()).split('\n')
        partial = lines.pop() ?? ''
        for (const line of lines) {
          const result = JSON.parse(line) as CaseResult // written by guest.ts
          results.push(result)
          for (const text of formatCase(result, verbose)) print(text)
        }
      },
      stderr: (chunk) => {
        errors = (errors + chunk.toString()).slice(-10_000)
      },
    })
    return { results, trouble: code === 0 ? '' : `the run on the kernel ended with exit code ${code}\n${errors}` }
  } catch (error) {
    return { results, trouble: error instanceof Error ? error.message : String(error) }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

process.exit(await main(process.argv.slice(2)))
