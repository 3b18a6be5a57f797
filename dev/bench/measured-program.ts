/**
 * The program that is measured, as a child process: its times, its memory, and what it says of itself when it can.
 * What could break: another proxy has no probe; everything it could tell is null then.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, openSync, closeSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ProbeReading } from '../../src/daemon/bench-probe.ts'
import { monotonicMs } from './clock.ts'

/** Clock ticks a second in /proc/PID/stat (USER_HZ). */
const TICKS = 100

export interface ProgramOptions {
  readonly command: readonly string[]
  /** Where it writes readings; absent when it has no probe. */
  readonly probeFile?: string
  readonly logFile: string
}

export class MeasuredProgram {
  readonly startedMs: number
  readonly #child: ChildProcess
  readonly #options: ProgramOptions
  readonly #ended: Promise<void>

  constructor(options: ProgramOptions) {
    this.#options = options
    const [program = '', ...args] = options.command
    const log = openSync(options.logFile, 'w')
    this.startedMs = monotonicMs()
    this.#child = spawn(program, args, {
      stdio: ['ignore', log, log],
      env: { ...process.env, ...(options.probeFile === undefined ? {} : { KUBE_IPVS_BENCH_FILE: options.probeFile }) },
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

  /** The last lines it printed, for a message about its early end. */
  get logTail(): string {
    return readFileSync(this.#options.logFile, 'utf8').trimEnd().split('\n').slice(-15).join('\n')
  }

  /** User and system time so far, in milliseconds, all threads. */
  cpuMs(): number {
    const fields = this.#proc('stat')
      .replace(/^.*\) /s, '')
      .split(' ')
    return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS
  }

  /** VmRSS and VmHWM */
  memory(): { readonly rssMiB: number; readonly peakRssMiB: number } {
    const status = this.#proc('status')
    const mib = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024
    return { rssMiB: mib('VmRSS'), peakRssMiB: mib('VmHWM') }
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

  /** Ends it, by force after 5 s. */
  async stop(): Promise<void> {
    this.#child.kill('SIGTERM')
    await Promise.race([this.#ended, sleep(5_000)])
    this.#child.kill('SIGKILL')
    await this.#ended
  }

  #proc(file: string): string {
    return readFileSync(`/proc/${this.#child.pid}/${file}`, 'utf8')
  }
}

function readings(file: string): ProbeReading[] {
  if (!existsSync(file)) return []
  return readFileSync(file, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as ProbeReading) // written by src/daemon/bench-probe.ts
}

/** Processes (and threads) started on this kernel since it booted. */
export function processesStarted(): number {
  return Number(/^processes (\d+)/m.exec(readFileSync('/proc/stat', 'utf8'))?.[1])
}
