/**
 * A whole run of the bench: the boots of all sizes, programs and repetitions one after the other, and their results. The
 * programs take turns, so that a machine that is slow for a while slows all of them down.
 */
import { loadavg } from 'node:os'
import { join, resolve } from 'node:path'
import { bundle } from '../bundle.ts'
import { describeKernel, type KernelChoice } from '../kernel/choice.ts'
import { boot, type BootOptions, bootsFor } from './boot.ts'
import { type Calibration, medianCalibration, parseCalibration } from './calibration.ts'
import { compile, compileFloor, parseFloor } from './floor.ts'
import type { GuestTask } from './guest.ts'
import type { GuestWork } from './measure.ts'
import { type Disturbance, takeProcessor } from './machine.ts'
import type { BenchOptions } from './options.ts'
import { commitOf, type Run } from './record.ts'
import { type BenchResult, type Measured, type Mode, type Repetitions, type Subject, summarise } from './result.ts'
import { percentile } from './statistics.ts'
import { whyNot } from './probe.ts'
import { reasonsAgainst } from './trust.ts'

const ROOT = join(import.meta.dirname, '../..')
const FLOOR_TIMEOUT_MS = 300_000
/**
 * Up to this many Services a cold start and a floor are short, so that a single wait in the kernel changes them, and both are measured
 * more often: cold starts in fresh boots, floors in separate network namespaces of one boot.
 */
const SHORT_SERVICES = 2_000
const COLD_STARTS_A_REPEAT = 3
const FLOORS_IN_A_BOOT = 5

const say = (text: string): void => {
  process.stderr.write(`${text}\n`)
}

export interface BenchSetting {
  readonly options: BenchOptions
  readonly choice: KernelChoice
  /** For compiled programs. */
  readonly folder: string
  /** For the bundle. */
  readonly bundled: string
  readonly kubeProxy: string | undefined
  readonly signal: AbortSignal
  /** Called with the results of each size as soon as they exist. */
  readonly onSize: (results: readonly BenchResult[]) => void
}

/** One run; `run` is called once. */
export class Bench {
  readonly #setting: BenchSetting
  readonly #disturbances: Disturbance[] = []
  readonly #calibrations: Calibration[] = []
  #release: string | null = null
  #boots: BootOptions

  constructor(setting: BenchSetting) {
    this.#setting = setting
    this.#boots = { choice: setting.choice, cwd: ROOT, signal: setting.signal }
  }

  async run(): Promise<Run> {
    const { options, choice, folder, kubeProxy } = this.#setting
    const at = new Date().toISOString()
    const average = loadavg()
    const modes = await this.#possibleModes()
    const calibrate = await compile(join(import.meta.dirname, 'calibrate.c'), folder)
    if ('missing' in calibrate) say(`No calibration: ${calibrate.missing}`)
    const floor = modes.includes('ipvs') ? await compileFloor(folder, process.env) : { missing: '' }
    if ('missing' in floor && floor.missing !== '') say(`No floor: ${floor.missing}`)
    const programs = {
      'kube-ipvs': options.proxy === undefined ? await this.#bundle() : '',
      'kube-proxy': kubeProxy === undefined ? '' : resolve(kubeProxy),
      other: options.proxy ?? '',
    }
    const freeCalibration =
      'missing' in calibrate || options.native ? undefined : await this.#calibrateFree(calibrate.program)
    const machine = await takeProcessor(choice.kind !== 'host')
    this.#boots = { ...this.#boots, processor: { number: machine.processor, hasPriority: machine.hasPriority } }
    say(
      `Kernel: ${describeKernel(choice)}; everything is kept on processor ${machine.processor} of ${machine.processors}`,
    )
    const scripts = {
      calibrate: 'missing' in calibrate ? undefined : calibrate.program,
      floor: 'missing' in floor ? undefined : floor.program,
    }
    const results: BenchResult[] = []
    for (const services of options.sizes) {
      const ofSize = await this.#size(services, modes, programs, scripts)
      this.#setting.onSize(ofSize)
      results.push(...ofSize)
    }
    const reasons = reasonsAgainst({
      disturbances: this.#disturbances,
      calibrations: this.#calibrations,
      results,
    })
    return {
      at,
      commit: commitOf(ROOT),
      kernel: { kind: options.native ? 'native' : choice.kind, release: this.#release },
      machine,
      load: { average, ...medianDisturbance(this.#disturbances) },
      calibration: medianCalibration(this.#calibrations) ?? null,
      freeCalibration: freeCalibration ?? null,
      trusted: reasons.length === 0,
      reasons,
      options,
      results,
    }
  }

  /** The requested modes, without iptables mode where the kernel does not support it; rejects when none is left. */
  async #possibleModes(): Promise<readonly Mode[]> {
    const { modes, native } = this.#setting.options
    if (!modes.includes('iptables')) return modes
    const missing = await whyNot('iptables', this.#boots)
    if (missing === undefined) return modes
    const where = native ? "this machine's own kernel" : 'this kernel'
    const problem = `${where} does not take the rules of iptables mode: ${missing}.`
    const rest = modes.filter((mode) => mode !== 'iptables')
    if (rest.length === 0) throw new Error(`${problem[0]?.toUpperCase()}${problem.slice(1)}`)
    say(`iptables mode is not measured: ${problem}`)
    return rest
  }

  async #size(
    services: number,
    modes: readonly Mode[],
    programs: Readonly<Record<Subject['program'], string>>,
    scripts: { readonly calibrate: string | undefined; readonly floor: string | undefined },
  ): Promise<BenchResult[]> {
    const { options, kubeProxy } = this.#setting
    const subjects = subjectsOf(modes, options.proxy !== undefined, kubeProxy !== undefined)
    const floors: number[] = []
    const measured = new Map<Subject, Measured[]>(subjects.map((subject) => [subject, []]))
    for (let repeat = 0; repeat < options.repeats; repeat++) {
      floors.push(...(await this.#floor(services, scripts)))
      for (const subject of subjects) {
        const task = this.#task(subject, services, programs[subject.program], repeat === 0 ? 'whole' : 'repeated')
        measured.get(subject)?.push(await this.#measure(task))
      }
      const coldStarts = services <= SHORT_SERVICES ? COLD_STARTS_A_REPEAT - 1 : 0
      for (let index = 0; index < coldStarts; index++)
        for (const subject of subjects)
          measured
            .get(subject)
            ?.push(await this.#measure(this.#task(subject, services, programs[subject.program], 'cold')))
    }
    for (const subject of subjects) {
      const counts = await this.#count(this.#task(subject, services, programs[subject.program], 'counted'))
      const [first, ...rest] = measured.get(subject) ?? []
      if (first !== undefined) measured.set(subject, [{ ...first, ...counts }, ...rest])
    }
    const repetitionsOf = (subject: Subject): Repetitions => ({ ...subject, measured: measured.get(subject) ?? [] })
    return subjects.map((subject) => {
      const other = subjects.find((one) => one.program === 'kube-proxy' && one.mode === subject.mode)
      return summarise(
        repetitionsOf(subject),
        subject.mode === 'ipvs' ? floors : [],
        other === undefined || other === subject ? undefined : repetitionsOf(other),
      )
    })
  }

  #task(subject: Subject, services: number, command: string, work: GuestWork): GuestTask {
    const {
      endpoints,
      changes,
      idleSeconds,
      slope,
      slopeChanges,
      burstWithProbe,
      nodeFlags,
      profile,
      virtualAddresses,
    } = this.#setting.options
    return {
      ...subject,
      services,
      endpoints,
      changes,
      idleSeconds,
      slope,
      slopeChanges,
      burstWithProbe,
      nodeFlags,
      virtualAddresses,
      command,
      work,
      ...(profile === undefined ? {} : { profile }),
    }
  }

  async #bundle(): Promise<string> {
    const { options, bundled } = this.#setting
    const { entry } = await bundle({ directory: bundled, minify: options.profile === undefined })
    return entry
  }

  async #calibrateFree(program: string): Promise<Calibration | undefined> {
    return parseCalibration((await boot([program], FLOOR_TIMEOUT_MS, this.#boots)).stdout)
  }

  /** Calibrates and writes the floor; the times of the floors in milliseconds. */
  async #floor(
    services: number,
    { calibrate, floor }: { readonly calibrate: string | undefined; readonly floor: string | undefined },
  ): Promise<number[]> {
    const { endpoints, virtualAddresses } = this.#setting.options
    const times = floor === undefined ? 0 : services <= SHORT_SERVICES ? FLOORS_IN_A_BOOT : 1
    const script = [
      'uname -r',
      ...(calibrate === undefined ? [] : [calibrate]),
      ...Array.from(
        { length: times },
        () =>
          `unshare --net sh -c 'ip link set lo up && exec ${floor} ${services} ${endpoints} ${virtualAddresses}' || exit; sleep 0.2`,
      ),
    ]
    const { code, stdout, disturbance } = await boot(['sh', '-c', script.join('\n')], FLOOR_TIMEOUT_MS, this.#boots)
    if (code !== 0) throw new Error(`the floor of ${services} Services ended with code ${code}`)
    if (disturbance !== undefined) this.#disturbances.push(disturbance)
    this.#release = stdout.split('\n', 1)[0] ?? null
    const calibration = parseCalibration(stdout)
    if (calibration !== undefined) this.#calibrations.push(calibration)
    const floors = stdout.split('\n').flatMap((line) => parseFloor(line) ?? [])
    if (floors.length > 0) say(`  ${services} x ${endpoints}, floor: ${floors.map((ms) => ms.toFixed(1)).join(' ')} ms`)
    return floors
  }

  async #measure(task: GuestTask): Promise<Measured> {
    const timeoutMs =
      1_800_000 + task.idleSeconds * 1000 + (task.slope ? 3_600_000 + this.#setting.options.slopeChanges * 100 : 0)
    const { code, stdout, disturbance } = await boot(commandOf(task), timeoutMs, bootsFor(task.services, this.#boots))
    if (code !== 0)
      throw new Error(
        `the measurement of ${task.program} in ${task.mode} mode at ${task.services} Services ended with code ${code}`,
      )
    if (disturbance !== undefined) this.#disturbances.push(disturbance)
    return JSON.parse(stdout) as Measured // written by bench/guest.ts
  }

  /** Empty where strace does not work: the counts stay null. */
  async #count(task: GuestTask): Promise<Measured> {
    const { code, stdout } = await boot(commandOf(task), 1_800_000, bootsFor(task.services, this.#boots))
    if (code === 0) return JSON.parse(stdout) as Measured // written by bench/guest.ts
    say(`System calls of ${task.program} in ${task.mode} mode were not counted at ${task.services} Services.`)
    return {}
  }
}

const commandOf = (task: GuestTask): string[] => [
  process.execPath,
  join(ROOT, 'dev/bench/guest.ts'),
  JSON.stringify(task),
]

/** For each mode our own program (or that of --proxy), and kube-proxy beside it. */
function subjectsOf(modes: readonly Mode[], isOther: boolean, withKubeProxy: boolean): Subject[] {
  return modes.flatMap((mode: Mode): Subject[] => [
    { program: isOther ? 'other' : 'kube-ipvs', mode },
    ...(withKubeProxy ? [{ program: 'kube-proxy', mode } as const] : []),
  ])
}

function medianDisturbance(all: readonly Disturbance[]): Disturbance {
  const median = (pick: (one: Disturbance) => number): number => percentile(all.map(pick), 0.5) ?? 0
  return { othersPercent: median((one) => one.othersPercent), stealPercent: median((one) => one.stealPercent) }
}
