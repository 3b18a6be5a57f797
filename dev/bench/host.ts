/**
 * What every measurement has on this machine: the bundle, compiled programs, one processor, and
 * fresh boots in which a task is measured. Each boot is calibrated, and what disturbed it is kept.
 */
import { join, resolve } from 'node:path'
import { bundle } from '../bundle.ts'
import { describeKernel, type KernelChoice } from '../kernel/choice.ts'
import { boot, type Boot, type BootOptions, bootsFor } from './boot.ts'
import { type Calibration, parseCalibration } from './calibration.ts'
import { compile } from './floor.ts'
import { type Disturbance, type Machine, takeProcessor } from './machine.ts'
import type { Subject } from './result.ts'
import type { GuestTask, Outcome } from './task.ts'

export const ROOT = join(import.meta.dirname, '../..')
/**
 * What a boot takes beside the phases: the kernel, the API server with its objects, reading the
 * table, pauses, traffic.
 */
const BESIDE_MS = 900_000
const BESIDE_A_SERVICE_MS = 10

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

export class Host {
  readonly machine: Machine
  /** The entry of our bundle. */
  readonly entry: string
  readonly boots: BootOptions
  /** Of each boot that was measured. */
  readonly disturbances: Disturbance[] = []
  readonly calibrations: Calibration[] = []
  readonly #setting: HostSetting

  static async prepare(setting: HostSetting): Promise<Host> {
    const { choice, bundled, signal } = setting
    const { entry } = await bundle({ directory: bundled, minify: true })
    const machine = await takeProcessor(choice.kind !== 'host')
    const { processor, processors, hasPriority } = machine
    say(`Kernel: ${describeKernel(choice)}; everything is kept on processor ${processor} of ${processors}`)
    return new Host(setting, machine, entry, {
      choice,
      cwd: ROOT,
      signal,
      processor: { number: processor, hasPriority },
    })
  }

  private constructor(setting: HostSetting, machine: Machine, entry: string, boots: BootOptions) {
    this.#setting = setting
    this.machine = machine
    this.entry = entry
    this.boots = boots
  }

  /** What a guest starts for such a program. */
  commandOf(program: Subject['program']): string {
    return program === 'kube-ipvs' ? this.entry : resolve(this.#setting.kubeProxy ?? '')
  }

  /** Path of the compiled `traffic.c`, or why there is none. */
  traffic(): ReturnType<typeof compile> {
    return compile(join(import.meta.dirname, 'traffic.c'), this.#setting.folder)
  }

  /** A fresh boot that is calibrated before it runs the command. */
  async run(command: readonly string[], timeoutMs: number, services: number): Promise<Boot> {
    const script = `${process.execPath} ${join(import.meta.dirname, 'calibration.ts')}; exec "$@"`
    const ended = await boot(['sh', '-c', script, 'sh', ...command], timeoutMs, bootsFor(services, this.boots))
    const calibration = parseCalibration(ended.stdout)
    if (calibration !== undefined) this.calibrations.push(calibration)
    if (ended.disturbance !== undefined) this.disturbances.push(ended.disturbance)
    return ended
  }

  /** A fresh boot that measures the task. A boot that does not end, or ends badly, is a failure. */
  async measure(task: GuestTask): Promise<Outcome> {
    const { coldStartSeconds, changeSeconds, changesSeconds, idleSeconds } = task.limits
    const limitSeconds = coldStartSeconds + 2 * changeSeconds + 3 * changesSeconds + 2 * idleSeconds
    const timeoutMs = BESIDE_MS + task.services * BESIDE_A_SERVICE_MS + 1000 * limitSeconds
    const command = [process.execPath, join(ROOT, 'dev/bench/guest.ts'), JSON.stringify(task)]
    try {
      const { code, stdout } = await this.run(command, timeoutMs, task.services)
      // The last line is the guest's, after that of the calibration.
      const last = stdout.trimEnd().split('\n').at(-1) ?? ''
      return code === 0 ? (JSON.parse(last) as Outcome) : { failure: `the boot ended with code ${code}` } // written by guest.ts
    } catch (error) {
      this.#setting.signal.throwIfAborted()
      return { failure: error instanceof Error ? error.message : String(error) }
    }
  }
}
