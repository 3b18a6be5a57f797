/**
 * The program that is measured, as a child process: its cost, its memory, and the readings of its probe (another proxy has
 * none).
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ProbeReading } from '../../src/modes/bench-probe.ts'
import { costOf, memoryOf, type ProgramCost, type ProgramMemory } from './program-cost.ts'
import { monotonicMs } from './table-view.ts'

export interface ProgramOptions {
  readonly command: readonly string[]
  /** Where it writes readings; absent when it has no probe. */
  readonly probeFile?: string
  readonly logFile: string
  /** It stops before its first instruction until `go` is called. Default false. */
  readonly stopped?: boolean
}

/** Stops itself, and becomes the program when it gets SIGCONT. */
const STOPPED = ['sh', '-c', 'kill -STOP $$; exec "$@"', 'sh']

export class MeasuredProgram {
  readonly startedMs: number
  readonly #child: ChildProcess
  readonly #options: ProgramOptions
  readonly #ended: Promise<void>

  constructor(options: ProgramOptions) {
    this.#options = options
    const [program = '', ...args] = [...(options.stopped === true ? STOPPED : []), ...options.command]
    const log = openSync(options.logFile, 'w')
    this.startedMs = monotonicMs()
    this.#child = spawn(program, args, {
      stdio: ['ignore', log, log],
      env: {
        ...process.env,
        ...(options.probeFile === undefined ? {} : { KUBE_IPVS_BENCH_FILE: options.probeFile }),
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

  /** Continues a program that was started stopped. */
  go(): void {
    this.#child.kill('SIGCONT')
  }

  cost(): ProgramCost {
    return costOf(this.pid)
  }

  memory(): ProgramMemory {
    return memoryOf(this.pid)
  }

  /** A new reading of the probe; undefined when the program has none. It also starts or stops watching the event loop. */
  async probe(): Promise<ProbeReading | undefined> {
    const { probeFile } = this.#options
    if (probeFile === undefined) return undefined
    const before = readings(probeFile).length
    this.#child.kill('SIGUSR2')
    for (let left = 500; left > 0 && this.isAlive; left--) {
      const reading = readings(probeFile)[before]
      if (reading !== undefined) return reading
      await sleep(10)
    }
    return undefined
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

function readings(file: string): ProbeReading[] {
  if (!existsSync(file)) return []
  return readFileSync(file, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as ProbeReading) // written by src/modes/bench-probe.ts
}
