/**
 * Runs test files, a few at a time, each in a process of its own, and counts the results. A file that dies, hangs or
 * holds no test counts as a failure, which names the tests that had not ended.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type ReportLine, unfinished } from './report.ts'
import type { Failure, FileResult } from './result.ts'

const outputTail = 20_000

export interface FileRun {
  readonly file: string
  readonly cwd: string
  readonly timeoutMs: number
  readonly signal: AbortSignal
  /** Added to the environment of this process. */
  readonly env: Readonly<Record<string, string>>
  /** Puts the command into namespaces, or returns it unchanged. */
  wrap(command: readonly string[]): readonly string[]
}

export async function runTestFile(run: FileRun): Promise<FileResult> {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-run-'))
  const report = join(folder, 'report')
  const startedAt = performance.now()
  try {
    const { ending, output } = await runProcess(run, report)
    const durationMs = performance.now() - startedAt
    return summarize(run.file, readReport(report), ending, output, durationMs)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** `ending`: undefined after exit code 0, else how the process ended. */
function runProcess(run: FileRun, report: string): Promise<{ ending: string | undefined; output: string }> {
  const reporter = join(import.meta.dirname, 'reporter.mjs')
  const cache = pathToFileURL(join(import.meta.dirname, 'compile-cache.mjs')).href
  const flags = [`--import=${cache}`, `--test-reporter=${reporter}`, `--test-reporter-destination=${report}`]
  const [program = '', ...args] = run.wrap([process.execPath, ...flags, run.file])
  return new Promise((resolve) => {
    let output = ''
    let stopped: string | undefined
    const child = spawn(program, args, {
      cwd: run.cwd,
      // Under `node --test` this variable would replace our reporter.
      env: { ...process.env, ...run.env, NODE_TEST_CONTEXT: undefined },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    const stop = (why: string) => (): void => {
      stopped = why
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
      } catch {
        // it has ended meanwhile
      }
    }
    const limit = setTimeout(stop(`did not end within ${Number((run.timeoutMs / 1000).toFixed(1))} s`), run.timeoutMs)
    const onAbort = stop('was stopped')
    run.signal.addEventListener('abort', onAbort, { once: true })
    const keep = (chunk: Buffer): void => {
      output = (output + chunk.toString()).slice(-outputTail)
    }
    child.stdout.on('data', keep)
    child.stderr.on('data', keep)
    child.once('error', (error) => resolve({ ending: error.message, output }))
    child.once('exit', () => {
      // A process that the file left running may hold its output open, so it is killed.
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
      } catch {
        // nothing was left
      }
    })
    child.once('close', (code, signal) => {
      clearTimeout(limit)
      run.signal.removeEventListener('abort', onAbort)
      const ending = code === 0 ? undefined : `ended with ${signal ?? `exit code ${code}`}`
      resolve({ ending: stopped ?? ending, output: output.trimEnd() })
    })
  })
}

function readReport(path: string): ReportLine[] {
  try {
    const lines = readFileSync(path, 'utf8').split('\n')
    // A line that is cut off belongs to a file that was killed.
    return lines.slice(0, -1).map((line) => JSON.parse(line) as ReportLine) // written by our own reporter
  } catch {
    return []
  }
}

/** A test that could not run because something is missing has a skip reason that starts with `needs`. */
const unmetNeed = (reason: string): string | undefined => /^needs (.+)$/s.exec(reason)?.[1]

export function summarize(
  file: string,
  lines: readonly ReportLine[],
  ending: string | undefined,
  output: string,
  durationMs: number,
): FileResult {
  const verdicts = lines.filter((line) => 'verdict' in line)
  const skips = verdicts.filter((line) => line.verdict === 'skipped').map((line) => line.text)
  const unmet = skips.flatMap((reason) => unmetNeed(reason) ?? [])
  const failures: Failure[] = verdicts.flatMap(({ verdict, name, text }) =>
    verdict === 'failed' ? [{ name, text }] : [],
  )
  // A file with a failed test ends with exit code 1, which adds nothing.
  if (ending !== undefined && (failures.length === 0 || ending !== 'ended with exit code 1'))
    failures.push({ name: '(the file)', text: [ending, ...unfinishedText(lines)].join('\n') })
  if (verdicts.length === 0 && ending === undefined) failures.push({ name: '(the file)', text: 'it holds no test' })
  return {
    file,
    passed: verdicts.filter((line) => line.verdict === 'passed').length,
    failures,
    skipped: skips.length - unmet.length,
    unmet,
    output,
    durationMs,
  }
}

function unfinishedText(lines: readonly ReportLine[]): string[] {
  const { running, waiting } = unfinished(lines)
  return [...running.map((name) => `had not ended: ${name}`), ...waiting.map((name) => `had not begun: ${name}`)]
}

export interface Stage {
  /** Taken one by one, each when a worker is free. */
  readonly files: Iterable<string>
  readonly cwd: string
  readonly concurrency: number
  readonly fileTimeoutMs: number
  readonly signal: AbortSignal
  /** Added to the environment of each file. */
  readonly env: Readonly<Record<string, string>>
  wrap(command: readonly string[]): readonly string[]
  ended(result: FileResult): void
}

export async function runStage(stage: Stage): Promise<void> {
  const waiting = stage.files[Symbol.iterator]()
  const worker = async (): Promise<void> => {
    while (!stage.signal.aborted) {
      const next = waiting.next()
      if (next.done === true) return
      const { cwd, signal, fileTimeoutMs: timeoutMs, env, wrap } = stage
      stage.ended(await runTestFile({ file: next.value, cwd, timeoutMs, signal, env, wrap }))
    }
  }
  await Promise.all(Array.from({ length: stage.concurrency }, worker))
}
