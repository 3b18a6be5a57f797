/** The program that is measured, as a child process: its cost, its memory, and how long its event loop was held. */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { costOf, memoryOf, type ProgramCost, type ProgramMemory } from './program-cost.ts'
import { monotonicMs } from './table-view.ts'

export interface ProgramOptions {
  readonly command: readonly string[]
  /** Where `subscriber.cjs` writes readings; absent when the command does not load it. */
  readonly readings?: string
  readonly logFile: string
}

/** What `subscriber.cjs` writes at each signal. */
interface Reading {
  /** Signals so far. */
  readonly signals: number
  /** null when watching begins. */
  readonly maxMs: number | null
}

export class MeasuredProgram {
  readonly startedMs: number
  readonly #child: ChildProcess
  readonly #options: ProgramOptions
  readonly #ended: Promise<void>
  #signals = 0

  constructor(options: ProgramOptions) {
    this.#options = options
    const [program = '', ...args] = options.command
    const log = openSync(options.logFile, 'w')
    this.startedMs = monotonicMs()
    this.#child = spawn(program, args, {
      stdio: ['ignore', log, log],
      env: {
        ...process.env,
        ...(options.readings === undefined ? {} : { KUBE_IPVS_BENCH_FILE: options.readings }),
      },
    })
    closeSync(log)
    this.#ended = new Promise((resolve) => {
      this.#child.once('exit', () => resolve())
      this.#child.once('error', () => resolve())
    })
  }

  get isAlive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null && this.#child.pid !== undefined
  }

  /** The last lines of its output, for an error about its early end. */
  get logTail(): string {
    return readFileSync(this.#options.logFile, 'utf8').trimEnd().split('\n').slice(-15).join('\n')
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  cost(): ProgramCost {
    return costOf(this.pid)
  }

  memory(): ProgramMemory {
    return memoryOf(this.pid)
  }

  /**
   * Begins to watch the event loop, or ends that and resolves to the longest time between two of
   * its turns, at most 2 ms too long. null when it begins, and when nothing in the program watches.
   */
  async watchEventLoop(): Promise<number | null> {
    const { readings } = this.#options
    if (readings === undefined) return null
    this.#signals++
    this.#child.kill('SIGUSR2')
    for (let left = 500; left > 0 && this.isAlive; left--) {
      const reading = readingIn(readings)
      if (reading?.signals === this.#signals) return reading.maxMs
      await sleep(10)
    }
    return null
  }

  /** Ends it: SIGTERM, after 5 s SIGKILL. */
  async stop(): Promise<void> {
    this.#child.kill('SIGTERM')
    await Promise.race([this.#ended, sleep(5_000)])
    await this.kill()
  }

  /** Ends it by SIGKILL. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#ended
  }
}

function readingIn(file: string): Reading | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Reading // written by subscriber.cjs
  } catch {
    return undefined // no signal has been answered yet
  }
}
