/**
 * What every measurement has on this machine: the bundle, compiled programs, one processor, and fresh boots in which a task is measured. Each boot
 * is calibrated, and what disturbed it is kept.
 */
import { loadavg } from 'node:os'
import { join, resolve } from 'node:path'
import { bundle } from '../bundle.ts'
import { describeKernel, type KernelChoice } from '../kernel/choice.ts'
import { boot, type Boot, type BootOptions, bootsFor } from './boot.ts'
import { type Calibration, parseCalibration } from './calibration.ts'
import { compile } from './floor.ts'
import { type Disturbance, type Machine, takeProcessor } from './machine.ts'
import type { GuestTask, Outcome } from './task.ts'
import { whyNot } from './probe.ts'
import type { AnyMode } from './result.ts'

export const ROOT = join(import.meta.dirname, '../..')
/** What a boot takes beside the phases: the kernel, the API server with its objects, reading the table, pauses. */
const BESIDE_MS = 300_000
const BESIDE_A_SERVICE_MS = 10
/** Of the phases that have no limit: traffic, the kernel's memory of deleted real servers, ten thousand changes. */
const PHASE_MS: Readonly<Partial<Record<GuestTask['phases'][number], number>>> = {
  traffic: 600_000,
  beside: 300_000,
  watched: 60_000,
  slope: 4_600_000,
  counted: 900_000,
}

export const say = (text: string): void => {
  process.stderr.write(`${text}\n`)
}

export interface HostSetting {
  readonly choice: KernelChoice
  /** For compiled programs. */
  readonly folder: string
  /** For the bundle. */
  readonly bundled: string
  /** Path of the program that KUBE_PROXY names. */
  readonly kubeProxy: string | undefined
  readonly signal: AbortSignal
}

/** What one boot was like. */
export interface Circumstances {
  readonly at: string
  /** Load averages over 1, 5 and 15 minutes before it. */
  readonly average: readonly number[]
  readonly release: string | null
  readonly calibration: Calibration | undefined
  readonly disturbance: Disturbance | undefined
}

export class Host {
  readonly machine: Machine
  /** The entry of our bundle. */
  readonly entry: string
  readonly boots: BootOptions
  readonly #setting: HostSetting
  readonly #calibrate: string
  /** Why a mode is not measured on this kernel; undefined where it is. */
  readonly #missing = new Map<AnyMode, string | undefined>()

  static async prepare(setting: HostSetting): Promise<Host> {
    const { choice, folder, bundled, signal } = setting
    const calibrate = await compile(join(import.meta.dirname, 'calibrate.c'), folder)
    if ('missing' in calibrate) say(`No calibration: ${calibrate.missing}`)
    const { entry } = await bundle({ directory: bundled, minify: true })
    const machine = await takeProcessor(choice.kind !== 'host')
    const { processor, processors, hasPriority } = machine
    say(`Kernel: ${describeKernel(choice)}; everything is kept on processor ${processor} of ${processors}`)
    const boots = { choice, cwd: ROOT, signal, processor: { number: processor, hasPriority } }
    return new Host(setting, machine, entry, boots, 'missing' in calibrate ? 'true' : calibrate.program)
  }

  private constructor(setting: HostSetting, machine: Machine, entry: string, boots: BootOptions, calibrate: string) {
    this.#setting = setting
    this.machine = machine
    this.entry = entry
    this.boots = boots
    this.#calibrate = calibrate
  }

  /** What a guest starts for such a program. */
  commandOf(program: GuestTask['program'], other = ''): string {
    return program === 'kube-ipvs' ? this.entry : program === 'other' ? other : resolve(this.#setting.kubeProxy ?? '')
  }

  /** Why this kernel cannot run the mode, for the middle of a sentence; undefined when it can. */
  async whyNot(mode: AnyMode): Promise<string | undefined> {
    if (mode === 'ipvs') return undefined
    if (!this.#missing.has(mode)) this.#missing.set(mode, await whyNot(mode, this.boots))
    return this.#missing.get(mode)
  }

  /** Path of the compiled `traffic.c`. */
  async traffic(): Promise<string> {
    const compiled = await compile(join(import.meta.dirname, 'traffic.c'), this.#setting.folder)
    if ('missing' in compiled) throw new Error(`The measurement needs its clients: ${compiled.missing}`)
    return compiled.program
  }

  /** A fresh boot that is calibrated before it runs the command. */
  async run(command: readonly string[], timeoutMs: number, services: number): Promise<Boot & Circumstances> {
    const at = new Date().toISOString()
    const average = loadavg()
    const script = `echo "release=$(uname -r)"; ${this.#calibrate}; exec "$@"`
    const ended = await boot(['sh', '-c', script, 'sh', ...command], timeoutMs, bootsFor(services, this.boots))
    const release = /^release=(.*)$/m.exec(ended.stdout)?.[1] ?? null
    return { ...ended, at, average, release, calibration: parseCalibration(ended.stdout) }
  }

  /** A fresh boot that measures the task. A boot that does not end, or ends badly, is a failure. */
  async measure(task: GuestTask): Promise<Circumstances & { readonly outcome: Outcome }> {
    const { coldStartSeconds, changeSeconds, changesSeconds, idleSeconds } = task.limits
    const timeoutMs =
      BESIDE_MS +
      task.services * BESIDE_A_SERVICE_MS +
      1000 * (coldStartSeconds + 2 * changeSeconds + changesSeconds + idleSeconds) +
      task.phases.reduce((sum, phase) => sum + (PHASE_MS[phase] ?? 0), 0)
    const command = [process.execPath, join(ROOT, 'dev/bench/guest.ts'), JSON.stringify(task)]
    try {
      const { code, stdout, ...circumstances } = await this.run(command, timeoutMs, task.services)
      // The last line is the guest's, after those of the calibration.
      const last = stdout.trimEnd().split('\n').at(-1) ?? ''
      const outcome = code === 0 ? (JSON.parse(last) as Outcome) : { failure: `the boot ended with code ${code}` } // written by guest.ts
      return { ...circumstances, outcome }
    } catch (error) {
      this.#setting.signal.throwIfAborted()
      const failure = error instanceof Error ? error.message : String(error)
      const unknown = { release: null, calibration: undefined, disturbance: undefined }
      return { at: new Date().toISOString(), average: loadavg(), ...unknown, outcome: { failure } }
    }
  }
}
