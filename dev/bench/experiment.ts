/**
 * `npm run bench -- --experiment`: latency and rate of new connections through one ClusterIP beside many Services, and the time
 * of a change, in both modes, each in a fresh boot. Writes a table and plots.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join, resolve } from 'node:path'
import { bundle } from '../bundle.ts'
import { describeKernel, type KernelChoice } from '../kernel/choice.ts'
import { boot, type BootOptions, bootsFor } from './boot.ts'
import { type Calibration, medianCalibration, parseCalibration } from './calibration.ts'
import { csvOf, type Experiment, plotsOf, pointOf, withExperiment } from './experiment-result.ts'
import { compile } from './floor.ts'
import type { GuestTask } from './guest.ts'
import { type Disturbance, takeProcessor } from './machine.ts'
import type { BenchOptions } from './options.ts'
import { commitOf } from './record.ts'
import type { Mode } from './result.ts'
import { percentile } from './statistics.ts'
import type { TrafficMeasured } from './traffic.ts'
import { reasonsAgainst } from './trust.ts'

const ROOT = join(import.meta.dirname, '../..')
const PAGE = 'README.md'
const BOOT_TIMEOUT_MS = 1_800_000

/** Beside the figures in the JSON; the page says more. */
const METHOD: readonly string[] = [
  'Every point is a fresh boot in which the guest, API server, program, clients and servers share one processor.',
  'N Services with the given endpoints each; the measured one stands in the middle of the list (Service N/2), rulesBefore is its place in KUBE-SERVICES.',
  'Client and endpoints are in network namespaces of their own, joined by veth; the client reaches the ClusterIP through the node.',
  'Latency: connect(2) to the end of a response of 64 bytes, on new TCP connections one after the other, after 200 that do not count.',
  'Connections a second: the same exchange by several client processes at once, over a fixed number of connections.',
  'Change: one endpoint of one EndpointSlice is replaced; from the write in the API server until the kernel has the new endpoint. Changes are 1.2 s apart, so that none waits for minSyncPeriod.',
]

const say = (text: string): void => {
  process.stderr.write(`${text}\n`)
}

export interface ExperimentSetting {
  readonly options: BenchOptions
  readonly counts: NonNullable<BenchOptions['experiment']>
  readonly choice: KernelChoice
  /** For compiled programs. */
  readonly folder: string
  /** For the bundle. */
  readonly bundled: string
  readonly signal: AbortSignal
}

/** Resolves when everything is measured; writes no file. */
export async function runExperiment(setting: ExperimentSetting): Promise<Experiment> {
  const { options, counts, choice, folder, bundled, signal } = setting
  const { sizes, endpoints, modes, repeats, changes } = options
  const at = new Date().toISOString()
  const commit = commitOf(ROOT)
  const average = loadavg()
  const traffic = await compile(join(import.meta.dirname, 'traffic.c'), folder)
  if ('missing' in traffic) throw new Error(`The experiment needs its clients: ${traffic.missing}`)
  const calibrate = await compile(join(import.meta.dirname, 'calibrate.c'), folder)
  const { entry } = await bundle({ directory: bundled, minify: true })
  const machine = await takeProcessor(choice.kind !== 'host')
  say(
    `Kernel: ${describeKernel(choice)}; everything is kept on processor ${machine.processor} of ${machine.processors}`,
  )
  const boots: BootOptions = {
    choice,
    cwd: ROOT,
    signal,
    processor: { number: machine.processor, hasPriority: machine.hasPriority },
  }
  const disturbances: Disturbance[] = []
  const calibrations: Calibration[] = []
  let release: string | null = null
  const measured = new Map<string, TrafficMeasured[]>()
  const keyOf = (mode: Mode, services: number): string => `${mode} ${services}`
  const total = repeats * sizes.length * modes.length
  let done = 0
  const startedMs = performance.now()
  for (let repeat = 0; repeat < repeats; repeat++)
    for (const services of sizes) {
      if ('program' in calibrate) {
        const { stdout } = await boot(['sh', '-c', `uname -r; ${calibrate.program}`], BOOT_TIMEOUT_MS, boots)
        release = stdout.split('\n', 1)[0] ?? null
        const calibration = parseCalibration(stdout)
        if (calibration !== undefined) calibrations.push(calibration)
      }
      for (const mode of modes) {
        const task: GuestTask = {
          program: 'kube-ipvs',
          mode,
          work: 'traffic',
          services,
          endpoints,
          changes,
          idleSeconds: 0,
          slope: false,
          slopeChanges: 0,
          nodeFlags: options.nodeFlags,
          virtualAddresses: options.virtualAddresses,
          command: entry,
          traffic: { ...counts, program: traffic.program },
        }
        const command = [process.execPath, join(ROOT, 'dev/bench/guest.ts'), JSON.stringify(task)]
        const { code, stdout, disturbance } = await boot(command, BOOT_TIMEOUT_MS, bootsFor(services, boots))
        if (code !== 0)
          throw new Error(`the experiment in ${mode} mode at ${services} Services ended with code ${code}`)
        if (disturbance !== undefined) disturbances.push(disturbance)
        const key = keyOf(mode, services)
        measured.set(key, [...(measured.get(key) ?? []), JSON.parse(stdout) as TrafficMeasured]) // written by bench/guest.ts
        say(`${++done} of ${total} boots after ${((performance.now() - startedMs) / 1000).toFixed(0)} s`)
      }
    }
  const reasons = reasonsAgainst({ disturbances, calibrations, results: [] })
  const median = (pick: (one: Disturbance) => number): number => percentile(disturbances.map(pick), 0.5) ?? 0
  return {
    at,
    commit,
    kernel: { kind: choice.kind, release },
    machine,
    load: {
      average,
      othersPercent: median((one) => one.othersPercent),
      stealPercent: median((one) => one.stealPercent),
    },
    calibration: medianCalibration(calibrations) ?? null,
    trusted: reasons.length === 0,
    reasons,
    method: METHOD,
    options: {
      sizes,
      endpoints,
      modes,
      repeats,
      changes,
      requests: counts.requests,
      connections: counts.connections,
      clients: counts.clients,
    },
    points: modes.flatMap((mode) =>
      sizes.map((services) => pointOf(mode, services, measured.get(keyOf(mode, services)) ?? [])),
    ),
  }
}

/** Writes the JSON, CSV and plots, and the figures of the folder's page if it has one; the paths. */
export function writeExperiment(experiment: Experiment, directory: string): string[] {
  const folder = resolve(ROOT, directory)
  mkdirSync(folder, { recursive: true })
  const files: Record<string, string> = {
    'experiment.json': `${JSON.stringify(experiment, undefined, 2)}\n`,
    'experiment.csv': csvOf(experiment.points),
    ...plotsOf(experiment.points),
  }
  const page = readIfThere(join(folder, PAGE))
  if (page !== undefined) files[PAGE] = withExperiment(page, experiment)
  return Object.entries(files).map(([name, text]) => {
    const path = join(folder, name)
    writeFileSync(path, text)
    return path
  })
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
