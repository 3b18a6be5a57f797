/**
 * A whole run of the bench: the boots of all sizes, programs and repetitions one after the other, and their results. The
 * programs take turns, so that a machine that is slow for a while slows all of them down.
 */
import { loadavg } from 'node:os'
import { type Calibration, medianCalibration } from './calibration.ts'
import { compileFloor, parseFloor } from './floor.ts'
import { Host, type HostSetting, ROOT, say } from './host.ts'
import type { Disturbance } from './machine.ts'
import type { Phase } from './task.ts'
import type { BenchOptions } from './options.ts'
import { commitOf, type Run } from './record.ts'
import {
  type BenchResult,
  type MeasuredNumbers,
  type Mode,
  numbersOf,
  type Repetitions,
  type Subject,
  summarise,
} from './result.ts'
import { percentile } from './statistics.ts'
import { reasonsAgainst } from './trust.ts'

const FLOOR_TIMEOUT_MS = 300_000
/**
 * Up to this many Services a cold start and a floor are short, so that a single wait in the kernel changes them, and both are measured
 * more often: cold starts in fresh boots, floors in separate network namespaces of one boot.
 */
const SHORT_SERVICES = 2_000
const COLD_STARTS_A_REPEAT = 3
const FLOORS_IN_A_BOOT = 5
/**
 * The pause between two changes. In iptables mode it is longer than minSyncPeriod (1 s), so that no change waits for it: otherwise the times of all
 * programs would be that period.
 */
const BETWEEN_CHANGES_MS: Readonly<Record<Mode, number>> = { ipvs: 20, iptables: 1_200 }
/** kube-proxy processes all Services for each change, and strace makes everything slow. */
const LIMITS = { coldStartSeconds: 900, changeSeconds: 600, changesSeconds: 60 } as const

export interface BenchSetting extends HostSetting {
  readonly options: BenchOptions
  /** Called with the results of each size as soon as they exist. */
  readonly onSize: (results: readonly BenchResult[]) => void
}

export async function runBench(setting: BenchSetting): Promise<Run> {
  const { options, choice, onSize } = setting
  const at = new Date().toISOString()
  const average = loadavg()
  const bench = new Bench(setting, await Host.prepare(setting))
  const modes = await bench.possibleModes()
  const floor = modes.includes('ipvs') ? await compileFloor(setting.folder, process.env) : { missing: '' }
  if ('missing' in floor && floor.missing !== '') say(`No floor: ${floor.missing}`)
  const results: BenchResult[] = []
  for (const services of options.sizes) {
    const ofSize = await bench.size(services, modes, 'missing' in floor ? undefined : floor.program)
    onSize(ofSize)
    results.push(...ofSize)
  }
  const { disturbances, calibrations, release, machine } = bench
  const reasons = reasonsAgainst({ disturbances, calibrations, results })
  const median = (pick: (one: Disturbance) => number): number => percentile(disturbances.map(pick), 0.5) ?? 0
  const [othersPercent, stealPercent] = [median((one) => one.othersPercent), median((one) => one.stealPercent)]
  return {
    at,
    commit: commitOf(ROOT),
    kernel: { kind: options.native ? 'native' : choice.kind, release },
    machine,
    load: { average, othersPercent, stealPercent },
    calibration: medianCalibration(calibrations) ?? null,
    trusted: reasons.length === 0,
    reasons,
    options,
    results,
  }
}

/** One run on one host. */
class Bench {
  readonly disturbances: Disturbance[] = []
  readonly calibrations: Calibration[] = []
  release: string | null = null
  readonly #setting: BenchSetting
  readonly #host: Host

  constructor(setting: BenchSetting, host: Host) {
    this.#setting = setting
    this.#host = host
  }

  get machine(): Run['machine'] {
    return this.#host.machine
  }

  /** The requested modes, without iptables mode where the kernel does not support it; rejects when none is left. */
  async possibleModes(): Promise<readonly Mode[]> {
    const { modes, native } = this.#setting.options
    if (!modes.includes('iptables')) return modes
    const missing = await this.#host.whyNot('iptables')
    if (missing === undefined) return modes
    const problem = `${native ? "This machine's own kernel" : 'This kernel'} does not take the rules of iptables mode: ${missing}.`
    const rest = modes.filter((mode) => mode !== 'iptables')
    if (rest.length === 0) throw new Error(problem)
    say(`iptables mode is not measured. ${problem}`)
    return rest
  }

  async size(services: number, modes: readonly Mode[], floor: string | undefined): Promise<BenchResult[]> {
    const { options, kubeProxy } = this.#setting
    const { repeats, slope, burstWithProbe } = options
    const subjects = subjectsOf(modes, options.proxy !== undefined, kubeProxy !== undefined)
    const floors: number[] = []
    const measured = new Map<Subject, MeasuredNumbers[]>(subjects.map((subject) => [subject, []]))
    const turn = async (phasesOf: (subject: Subject) => readonly Phase[]): Promise<void> => {
      for (const subject of subjects)
        measured.get(subject)?.push(await this.#measure(subject, services, phasesOf(subject)))
    }
    for (let repeat = 0; repeat < repeats; repeat++) {
      floors.push(...(await this.#floor(services, floor)))
      await turn(({ mode }) => [
        ...(['changes', 'burst'] as const),
        ...(repeat > 0 ? [] : (['rest'] as const)),
        ...(repeat > 0 || !burstWithProbe || mode !== 'ipvs' ? [] : (['beside'] as const)),
        ...(repeat > 0 ? [] : (['watched'] as const)),
        ...(repeat > 0 || !slope ? [] : (['slope'] as const)),
      ])
      for (let more = services <= SHORT_SERVICES ? COLD_STARTS_A_REPEAT : 1; more > 1; more--) await turn(() => [])
    }
    for (const subject of subjects) {
      const counts = await this.#measure(subject, services, ['counted'])
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

  /** Calibrates and writes the floor; the times of the floors in milliseconds. */
  async #floor(services: number, floor: string | undefined): Promise<number[]> {
    const { endpoints, virtualAddresses } = this.#setting.options
    const times = floor === undefined ? 0 : services <= SHORT_SERVICES ? FLOORS_IN_A_BOOT : 1
    const once = `unshare --net sh -c 'ip link set lo up && exec ${floor} ${services} ${endpoints} ${virtualAddresses}' || exit; sleep 0.2`
    const script = ['true', ...Array.from({ length: times }, () => once)].join('\n')
    const ended = await this.#host.run(['sh', '-c', script], FLOOR_TIMEOUT_MS, services)
    if (ended.code !== 0) throw new Error(`the floor of ${services} Services ended with code ${ended.code}`)
    this.release = ended.release
    if (ended.disturbance !== undefined) this.disturbances.push(ended.disturbance)
    if (ended.calibration !== undefined) this.calibrations.push(ended.calibration)
    const floors = ended.stdout.split('\n').flatMap((line) => parseFloor(line) ?? [])
    if (floors.length > 0) say(`  ${services} x ${endpoints}, floor: ${floors.map((ms) => ms.toFixed(1)).join(' ')} ms`)
    return floors
  }

  async #measure(subject: Subject, services: number, phases: readonly Phase[]): Promise<MeasuredNumbers> {
    const { endpoints, changes, idleSeconds, proxy, virtualAddresses } = this.#setting.options
    const limits = { ...LIMITS, betweenChangesMs: BETWEEN_CHANGES_MS[subject.mode], idleSeconds }
    const command = this.#host.commandOf(subject.program, proxy)
    const task = { ...subject, services, endpoints, changes, virtualAddresses, command, phases, limits }
    const { outcome, disturbance } = await this.#host.measure(task)
    const where = `${subject.program} in ${subject.mode} mode at ${services} Services`
    if ('failure' in outcome) {
      if (!phases.includes('counted')) throw new Error(`the measurement of ${where} failed: ${outcome.failure}`)
      say(`System calls of ${where} were not counted: ${outcome.failure}`)
      return {}
    }
    if (disturbance !== undefined && !phases.includes('counted')) this.disturbances.push(disturbance)
    return numbersOf(outcome.measured)
  }
}

/** For each mode our own program (or that of --proxy), and kube-proxy beside it. */
function subjectsOf(modes: readonly Mode[], isOther: boolean, withKubeProxy: boolean): Subject[] {
  return modes.flatMap((mode: Mode): Subject[] => [
    { program: isOther ? 'other' : 'kube-ipvs', mode },
    ...(withKubeProxy ? [{ program: 'kube-proxy', mode } as const] : []),
  ])
}
