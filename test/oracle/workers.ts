/**
 * Worker processes that share a list of cases. A worker that dies or hangs fails the case that it
 * runs, and another one continues: each task has exactly one result.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { inNamespaces } from '../../dev/kernel/host.ts'
import type { CaseResult } from './result.ts'
import type { CaseSetting, CaseTask } from './run-case.ts'

/** The longest case waits 15 s by itself. */
const CASE_MS = 180_000
const ERROR_LETTERS = 4_000

export interface Crew {
  readonly tasks: readonly CaseTask[]
  readonly size: number
  /** In new namespaces, or in this process's. */
  readonly isolated: boolean
  readonly setting: CaseSetting
  readonly signal: AbortSignal
  ended(result: CaseResult): void
}

export async function runCrew(crew: Crew): Promise<void> {
  const waiting = [...crew.tasks]
  const shift = async (): Promise<void> => {
    let worker: Worker | undefined
    try {
      for (let task = waiting.shift(); task !== undefined && !crew.signal.aborted; task = waiting.shift()) {
        if (worker === undefined || !worker.isAlive) worker = new Worker(crew)
        crew.ended(await worker.run(task))
      }
    } finally {
      await worker?.end()
    }
  }
  await Promise.all(Array.from({ length: Math.min(crew.size, crew.tasks.length) }, shift))
}

class Worker {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>
  readonly #closed: Promise<void>
  #errors = ''
  #current: ((line: string | undefined) => void) | undefined

  constructor({ setting, isolated, signal }: Crew) {
    const command = [process.execPath, join(import.meta.dirname, 'worker.ts'), JSON.stringify(setting)]
    const [program = '', ...args] = isolated ? ['unshare', '--uts', '--', ...inNamespaces(command)] : command
    this.#child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] })
    this.#child.stdin.on('error', () => undefined) // `over` below handles its end
    this.#child.stderr.on('data', (chunk: Buffer) => {
      this.#errors = (this.#errors + chunk.toString()).slice(-ERROR_LETTERS)
    })
    createInterface({ input: this.#child.stdout }).on('line', (line) => this.#current?.(line))
    const stop = (): void => void this.#child.kill('SIGKILL')
    signal.addEventListener('abort', stop, { once: true })
    this.#closed = new Promise((resolve) => {
      const over = (): void => {
        signal.removeEventListener('abort', stop)
        this.#current?.(undefined)
        resolve()
      }
      this.#child.once('close', over)
      this.#child.once('error', over)
    })
  }

  get isAlive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null && !this.#child.killed
  }

  async run(task: CaseTask): Promise<CaseResult> {
    const startedMs = performance.now()
    const late = setTimeout(() => this.#child.kill('SIGKILL'), CASE_MS)
    const line = await new Promise<string | undefined>((resolve) => {
      this.#current = resolve
      this.#child.stdin.write(`${JSON.stringify(task)}\n`)
    })
    clearTimeout(late)
    this.#current = undefined
    if (line !== undefined) return JSON.parse(line) as CaseResult // written by worker.ts
    const durationMs = performance.now() - startedMs
    const failures = [{ where: 'the run', text: `its worker ended or hung\n${this.#errors}` }]
    return { name: task.name, mode: task.mode, steps: 0, durationMs, deviations: [], failures, log: [] }
  }

  async end(): Promise<void> {
    this.#child.stdin.end()
    await this.#closed
  }
}
