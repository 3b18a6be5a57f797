/**
 * Runs test files one after the other in a process of their own (batch.ts), and counts the results
 * of each as soon as it ends. A file that dies, hangs or holds no test counts as a failure, which
 * names the tests that had not ended.
 */
import { spawn } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type ReportLine, unfinished } from './report.ts'
import { type Failure, type FileResult, failedRun } from './result.ts'
import { processTree } from './surroundings.ts'

const OUTPUT_TAIL = 20_000
const POLL_MS = 100

export interface TestProcess {
  readonly files: readonly string[]
  readonly cwd: string
  /** For each file. */
  readonly fileTimeoutMs: number
  readonly signal: AbortSignal
  /** Added to the environment of this process. */
  readonly env: Readonly<Record<string, string>>
  /** Puts the command into namespaces, or returns it unchanged. */
  wrap(command: readonly string[]): readonly string[]
  /** Called once for each file that ended, or during which the process ended. */
  ended(result: FileResult): void
}

/**
 * Resolves to the files that had not begun when the process died. When a process dies before any of
 * several files has begun, nobody knows which of them is to blame, and all of them have not begun.
 * A process that was stopped (`signal`) has begun all of its files.
 */
export async function runTestProcess(run: TestProcess): Promise<readonly string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-run-'))
  try {
    return await new RunningProcess(run, join(folder, 'report')).result()
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * The files that node:test names in the text of such an error (`at test/a.test.ts:3:1`); all of
 * them if it names none.
 */
function namedIn(text: string, files: readonly string[]): string {
  return files.find((file) => text.includes(` at ${file}:`)) ?? files.join(' ')
}

class RunningProcess {
  readonly #run: TestProcess
  readonly #path: string
  readonly #lines: ReportLine[] = []
  readonly #waiting: Set<string>
  /** What was printed since the last file ended. */
  #output = ''
  #hasFailures = false
  #fileBeganAt = performance.now()

  constructor(run: TestProcess, path: string) {
    this.#run = run
    this.#path = path
    this.#waiting = new Set(run.files)
  }

  async result(): Promise<readonly string[]> {
    writeFileSync(this.#path, '')
    const report = new GrowingFile(this.#path)
    let ending: string | undefined
    try {
      ending = await this.#end(() => this.#take(report.newLines()))
    } finally {
      report.close()
    }
    // A process with a failed test ends with exit code 1, which adds nothing.
    const isExplained = ending === undefined || (this.#hasFailures && ending === 'ended with exit code 1')
    const [first] = this.#waiting
    if (first === undefined) {
      // Such an error would have ended the program, so it is a failure even if every test passed
      // and although no file runs again for it.
      const late = this.#lines.flatMap((line) => ('verdict' in line && line.file === '' ? [line.text] : []))
      for (const text of late)
        this.#run.ended(failedRun(`${namedIn(text, this.#run.files)} (an error after the end of a test)`, text))
      if (!isExplained && late.length === 0) this.#fail(this.#run.files.join(' '), ending ?? '', [])
      return []
    }
    const hasBegun = this.#lines.some((line) => 'progress' in line && line.file === first && line.progress !== 'queued')
    if (!hasBegun && this.#run.files.length > 1 && !this.#run.signal.aborted) return [...this.#waiting]
    const { running, waiting } = unfinished(this.#lines, first)
    this.#fail(first, ending ?? 'the process ended before the file did', [
      ...running.map((name) => `had not ended: ${name}`),
      ...waiting.map((name) => `had not begun: ${name}`),
    ])
    this.#waiting.delete(first)
    return this.#run.signal.aborted ? [] : [...this.#waiting]
  }

  /** The failure of a file that has no regular end, beside what its tests have reported. */
  #fail(file: string, ending: string, details: readonly string[]): void {
    const found = summarize(file, this.#lines, this.#output, performance.now() - this.#fileBeganAt)
    const failures = [
      ...found.failures.filter(({ text }) => text !== NO_TEST),
      { name: '(the file)', text: [ending, ...details].join('\n') },
    ]
    this.#run.ended({ ...found, failures })
  }

  #take(lines: readonly ReportLine[]): void {
    for (const line of lines) {
      const [current = ''] = this.#waiting
      this.#lines.push('verdict' in line && line.file === '' ? { ...line, file: current } : line)
      if (!('ended' in line)) continue
      const result = summarize(line.ended, this.#lines, this.#output, line.durationMs)
      this.#waiting.delete(line.ended)
      this.#hasFailures ||= result.failures.length > 0
      this.#output = ''
      this.#fileBeganAt = performance.now()
      this.#run.ended(result)
    }
  }

  /**
   * Resolves to undefined after exit code 0, else to how the process ended. `look` is called while
   * it runs, and at its end.
   */
  #end(look: () => void): Promise<string | undefined> {
    const { cwd, env, signal, wrap, files, fileTimeoutMs } = this.#run
    const reporter = join(import.meta.dirname, 'reporter.mjs')
    const cache = pathToFileURL(join(import.meta.dirname, 'compile-cache.mjs')).href
    const flags = [
      `--import=${cache}`,
      `--test-reporter=${reporter}`,
      `--test-reporter-destination=${this.#path}`,
      // A socket that a test leaves open would keep the process until the time limit; what disturbs
      // others is found by surroundings.ts.
      '--test-force-exit',
      // Each start of a program copies the page tables of this process, and it faults for its pages again.
      '--max-semi-space-size=1',
    ]
    const command = [process.execPath, ...flags, join(import.meta.dirname, 'batch.ts'), ...files]
    const [program = '', ...args] = wrap(command)
    return new Promise((resolve) => {
      let stopped: string | undefined
      const child = spawn(program, args, {
        cwd,
        // Under `node --test` this variable would replace our reporter.
        env: { ...process.env, ...env, NODE_TEST_CONTEXT: undefined },
        stdio: ['ignore', 'pipe', 'pipe'],
        detached: true,
      })
      const stop = (why: string): void => {
        stopped ??= why
        killGroup(child.pid)
      }
      const onAbort = (): void => stop('was stopped')
      signal.addEventListener('abort', onAbort, { once: true })
      const poll = setInterval(() => {
        look()
        if (stopped !== undefined || performance.now() - this.#fileBeganAt <= fileTimeoutMs) return
        this.#output += `\nIts processes at the time limit:\n${processTree(String(child.pid)).join('\n')}\n`
        stop(`did not end within ${Number((fileTimeoutMs / 1000).toFixed(1))} s`)
      }, POLL_MS)
      const keep = (chunk: Buffer): void => {
        this.#output = (this.#output + chunk.toString()).slice(-OUTPUT_TAIL)
      }
      child.stdout.on('data', keep)
      child.stderr.on('data', keep)
      const end = (ending: string | undefined): void => {
        clearInterval(poll)
        signal.removeEventListener('abort', onAbort)
        look()
        resolve(ending)
      }
      child.once('error', (error) => end(error.message))
      // A process that a file left running may hold its output open, so it is killed.
      child.once('exit', () => killGroup(child.pid))
      child.once('close', (code, name) =>
        end(stopped ?? (code === 0 ? undefined : `ended with ${name ?? `exit code ${code}`}`)),
      )
    })
  }
}

function killGroup(id: number | undefined): void {
  try {
    if (id !== undefined) process.kill(-id, 'SIGKILL')
  } catch {
    // nothing was left
  }
}

/** A file to which another process appends lines. */
class GrowingFile {
  readonly #fd: number
  #position = 0
  #partial = ''

  constructor(path: string) {
    this.#fd = openSync(path, 'r')
  }

  /**
   * The lines since the last call. A line that is cut off belongs to a process that is still
   * writing, or was killed.
   */
  newLines(): readonly ReportLine[] {
    const chunk = Buffer.alloc(64 << 10)
    const parts: Buffer[] = []
    for (;;) {
      const length = readSync(this.#fd, chunk, 0, chunk.length, this.#position)
      if (length === 0) break
      this.#position += length
      parts.push(Buffer.from(chunk.subarray(0, length)))
    }
    if (parts.length === 0) return []
    // A character may be cut in two only where a line is cut, and `latin1` keeps its bytes.
    const lines = (this.#partial + Buffer.concat(parts).toString('latin1')).split('\n')
    this.#partial = lines.pop() ?? ''
    return lines.map((line) => JSON.parse(Buffer.from(line, 'latin1').toString()) as ReportLine) // written by our own reporter
  }

  close(): void {
    closeSync(this.#fd)
  }
}

/** A test that could not run because something is missing has a skip reason that starts with `needs`. */
const unmetNeed = (reason: string): string | undefined => /^needs (.+)$/s.exec(reason)?.[1]

const NO_TEST = 'it holds no test'

function summarize(file: string, lines: readonly ReportLine[], output: string, durationMs: number): FileResult {
  const verdicts = lines.filter((line) => 'verdict' in line).filter((line) => line.file === file)
  const skips = verdicts.filter((line) => line.verdict === 'skipped').map((line) => line.text)
  const unmet = skips.flatMap((reason) => unmetNeed(reason) ?? [])
  const failures: Failure[] = verdicts.flatMap(({ verdict, name, text }) =>
    verdict === 'failed' ? [{ name: name === '' ? '(the file)' : name, text }] : [],
  )
  if (verdicts.length === 0) failures.push({ name: '(the file)', text: NO_TEST })
  return {
    file,
    passed: verdicts.filter((line) => line.verdict === 'passed').length,
    failures,
    skipped: skips.length - unmet.length,
    unmet,
    told: lines.flatMap((line) =>
      'told' in line && line.file === file ? [`${line.name.split(' > ').at(-1) ?? ''}: ${line.told}`] : [],
    ),
    output: output.trimEnd(),
    durationMs,
  }
}
