/**
 * A whole run of the bench: the boots of all sizes, programs and repetitions one after the other,
 * and their results. The programs take turns, so that a machine that is slow for a while slows all
 * of them down.
 */
import { loadavg } from 'node:os'
import { medianCalibration } from './calibration.ts'
import { compileFloor, parseFloor } from './floor.ts'
import { Host, type HostSetting, ROOT, say } from './host.ts'
import type { Disturbance } from './machine.ts'
import type { BenchOptions } from './options.ts'
import { whyNotIptables } from './probe.ts'
import { commitOf, type Run } from './record.ts'
import { type BenchResult, type Measured, type Mode, type Repetitions, type Subject, summarise } from './result.ts'
import { percentile } from './statistics.ts'
import type { Phase, TrafficTask } from './task.ts'
import { COUNTS } from './traffic.ts'
import { reasonsAgainst } from './trust.ts'

const FLOOR_TIMEOUT_MS = 300_000
/**
 * Up to this many Services a cold start and a floor are short, so that a single wait in the kernel
 * changes them, and both are measured more often: cold starts in fresh boots, floors in separate
 * network namespaces of one boot.
 */
const SHORT_SERVICES = 2_000
const COLD_STARTS_A_REPEAT = 3
const FLOORS_IN_A_BOOT = 5
/**
 * The pause between two changes. In iptables mode it is longer than minSyncPeriod (1 s), so that no
 * change waits for it: otherwise the times of all programs would be that period.
 */
const BETWEEN_CHANGES_MS: Readonly<Record<Mode, number>> = { ipvs: 20, iptables: 1_200 }
/** kube-proxy processes all Services for each change. */
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
  const host = await Host.prepare(setting)
  const modes = await possibleModes(options.modes, host)
  const floor = modes.includes('ipvs') ? await compileFloor(setting.folder) : { missing: '' }
  if ('missing' in floor && floor.missing !== '') say(`No floor: ${floor.missing}`)
  const traffic = await host.traffic()
  if ('missing' in traffic) say(`No traffic: ${traffic.missing}`)
  const bench = new Bench(setting, host, {
    floor: 'program' in floor ? floor.program : undefined,
    traffic: 'program' in traffic ? { ...COUNTS, program: traffic.program } : undefined,
  })
  const results: BenchResult[] = []
  for (const services of options.sizes) {
    const ofSize = await bench.size(services, modes)
    onSize(ofSize)
    results.push(...ofSize)
  }
  const { disturbances, calibrations, machine } = host
  const median = (pick: (one: Disturbance) => number): number => percentile(disturbances.map(pick), 0.5) ?? 0
  const [othersPercent, stealPercent] = [median((one) => one.othersPercent), median((one) => one.stealPercent)]
  return {
    at,
    commit: commitOf(ROOT),
    kernel: { kind: choice.kind, release: calibrations[0]?.release ?? null },
    machine,
    load: { average, othersPercent, stealPercent },
    calibration: medianCalibration(calibrations) ?? null,
    reasons: reasonsAgainst(disturbances, calibrations),
    results,
  }
}

/** The requested modes, without iptables mode where the kernel does not support it; rejects when none is left. */
async function possibleModes(modes: readonly Mode[], host: Host): Promise<readonly Mode[]> {
  const missing = modes.includes('iptables') ? await whyNotIptables(host.boots) : undefined
  if (missing === undefined) return modes
  const problem = `This kernel does not take the rules of iptables mode: ${missing}.`
  const rest = modes.filter((mode) => mode !== 'iptables')
  if (rest.length === 0) throw new Error(problem)
  say(`iptables mode is not measured. ${problem}`)
  return rest
}

/** What gcc made; undefined is not measured. */
interface Compiled {
  readonly floor: string | undefined
  readonly traffic: TrafficTask | undefined
}

/** One run on one host. */
class Bench {
  readonly #setting: BenchSetting
  readonly #host: Host
  readonly #compiled: Compiled

  constructor(setting: BenchSetting, host: Host, compiled: Compiled) {
    this.#setting = setting
    this.#host = host
    this.#compiled = compiled
  }

  async size(services: number, modes: readonly Mode[]): Promise<BenchResult[]> {
    const { options, kubeProxy } = this.#setting
    const subjects = modes.flatMap((mode): Subject[] => [
      ...(mode === 'ipvs'
        ? options.firewalls.map((firewall): Subject => ({ program: 'kube-ipvs', mode, firewall }))
        : [{ program: 'kube-ipvs', mode } as const]),
      ...(kubeProxy === undefined ? [] : [{ program: 'kube-proxy', mode } as const]),
    ])
    const floors: number[] = []
    const measured = new Map<Subject, Measured[]>(subjects.map((subject) => [subject, []]))
    const turn = async (phases: readonly Phase[]): Promise<void> => {
      for (const subject of subjects) measured.get(subject)?.push(await this.#measure(subject, services, phases))
    }
    const traffic: readonly Phase[] = this.#compiled.traffic === undefined ? [] : ['traffic']
    for (let repeat = 0; repeat < options.repeats; repeat++) {
      floors.push(...(await this.#floor(services)))
      await turn(repeat > 0 ? ['changes', 'burst'] : [...traffic, 'changes', 'burst', 'rest', 'inside'])
      for (let more = services <= SHORT_SERVICES ? COLD_STARTS_A_REPEAT : 1; more > 1; more--) await turn([])
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
  async #floor(services: number): Promise<number[]> {
    const { endpoints, virtualAddresses } = this.#setting.options
    const { floor } = this.#compiled
    const times = floor === undefined ? 0 : services <= SHORT_SERVICES ? FLOORS_IN_A_BOOT : 1
    const once = `unshare --net sh -c 'ip link set lo up && exec ${floor} ${services} ${endpoints} ${virtualAddresses}' || exit; sleep 0.2`
    const script = ['true', ...Array.from({ length: times }, () => once)].join('\n')
    const ended = await this.#host.run(['sh', '-c', script], FLOOR_TIMEOUT_MS, services)
    if (ended.code !== 0) throw new Error(`the floor of ${services} Services ended with code ${ended.code}`)
    const floors = ended.stdout.split('\n').flatMap((line) => parseFloor(line) ?? [])
    if (floors.length > 0) say(`  ${services} x ${endpoints}, floor: ${floors.map((ms) => ms.toFixed(1)).join(' ')} ms`)
    return floors
  }

  /** Our own program must not fail; what kube-proxy does not finish in time has no numbers. */
  async #measure(subject: Subject, services: number, phases: readonly Phase[]): Promise<Measured> {
    const { endpoints, changes, idleSeconds, virtualAddresses } = this.#setting.options
    const outcome = await this.#host.measure({
      ...subject,
      services,
      endpoints,
      changes,
      virtualAddresses,
      command: this.#host.commandOf(subject.program),
      phases,
      limits: { ...LIMITS, betweenChangesMs: BETWEEN_CHANGES_MS[subject.mode], idleSeconds },
      ...(this.#compiled.traffic === undefined ? {} : { traffic: this.#compiled.traffic }),
    })
    if ('measured' in outcome) return outcome.measured
    const failed = `${subject.program} in ${subject.mode} mode at ${services} Services: ${outcome.failure}`
    if (subject.program === 'kube-ipvs') throw new Error(failed)
    say(failed)
    return { services, endpoints }
  }
}
