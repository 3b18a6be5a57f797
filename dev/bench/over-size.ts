/**
 * `npm run bench -- --over-size`: cold start, change, rest and memory of every program in every way at every size, one boot for each cell.
 * A cell is stored as soon as it is measured, and is not measured again by a later run, so the whole can be made in pieces.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join, resolve } from 'node:path'
import { bundle } from '../bundle.ts'
import { describeKernel, type KernelChoice } from '../kernel/choice.ts'
import { boot, type BootOptions, bootsFor } from './boot.ts'
import { parseCalibration } from './calibration.ts'
import { type Cell, type CellLimits, cellOf, type CellOutcome, formatCells, parseCells, withCell } from './cell.ts'
import { compile } from './floor.ts'
import type { GuestTask } from './guest.ts'
import { type Machine, takeProcessor } from './machine.ts'
import type { BenchOptions, OverSize } from './options.ts'
import { figuresOfCells, plotsOfCells } from './over-size-result.ts'
import { withFigures } from './page.ts'
import { whyNot } from './probe.ts'
import { commitOf } from './record.ts'
import { SERIES, type SeriesName } from './series.ts'

const ROOT = join(import.meta.dirname, '../..')
const CELLS = 'over-size.jsonl'
const PAGE = 'over-size.md'
const CHANGE_SECONDS = 120
const CHANGES_SECONDS = 30
/** Longer than minSyncPeriod (1 s), so that no change waits for it. Ours in ipvs mode has none. */
const BETWEEN_CHANGES_MS = 1_200
const BETWEEN_OURS_MS = 20
/** What a boot takes beside the measurement: the kernel, the API server with its objects, reading the table, pauses. */
const BESIDE_MS = 180_000
const BESIDE_A_SERVICE_MS = 10

const say = (text: string): void => {
  process.stderr.write(`${text}\n`)
}

export interface OverSizeSetting {
  readonly options: BenchOptions
  readonly plan: OverSize
  readonly choice: KernelChoice
  /** For compiled programs. */
  readonly folder: string
  /** For the bundle. */
  readonly bundled: string
  readonly kubeProxy: string | undefined
  readonly signal: AbortSignal
}

/** Measures what is missing and writes table and charts; the paths of what it wrote. */
export async function runOverSize(setting: OverSizeSetting): Promise<string[]> {
  const { options, plan } = setting
  const { sizes, endpoints } = options
  const folder = resolve(ROOT, plan.directory)
  mkdirSync(folder, { recursive: true })
  let cells = readCells(join(folder, CELLS))
  const wanted = plan.drawOnly
    ? []
    : sizes
        .flatMap((services) => plan.series.map((series) => ({ series, services, endpoints })))
        // A cell that failed is measured again.
        .filter((name) => plan.again || (cellOf(cells, name)?.measured ?? null) === null)
  if (wanted.length > 0) {
    const bench = await CellBench.prepare(setting)
    for (const [index, name] of wanted.entries()) {
      say(`${name.series} at ${name.services} Services (cell ${index + 1} of ${wanted.length})`)
      const cell = await bench.cell(name.series, name.services)
      if (cell === undefined) continue
      cells = withCell(cells, cell)
      writeWhole(join(folder, CELLS), formatCells(cells))
    }
  }
  return writeOverSize(cells, folder, endpoints)
}

/** Writes the charts, and the figures of the folder's page if it has one, from the cells with so many endpoints; the paths. */
export function writeOverSize(cells: readonly Cell[], folder: string, endpoints: number): string[] {
  const shown = cells.filter((cell) => cell.endpoints === endpoints)
  const files: Record<string, string> = { ...plotsOfCells(shown) }
  const page = readIfThere(join(folder, PAGE))
  if (page !== undefined) files[PAGE] = withFigures(page, '--over-size', figuresOfCells(shown, endpoints))
  return Object.entries(files).map(([name, text]) => {
    const path = join(folder, name)
    writeWhole(path, text)
    return path
  })
}

/** What all boots of a run have in common. */
class CellBench {
  readonly #setting: OverSizeSetting
  readonly #machine: Machine
  readonly #boots: BootOptions
  readonly #calibrate: string | undefined
  readonly #entry: string
  /** Why a mode is not measured on this kernel; `undefined` where it is. */
  readonly #missing = new Map<string, string | undefined>()

  static async prepare(setting: OverSizeSetting): Promise<CellBench> {
    const { choice, folder, bundled, signal } = setting
    const calibrate = await compile(join(import.meta.dirname, 'calibrate.c'), folder)
    if ('missing' in calibrate) say(`No calibration: ${calibrate.missing}`)
    const { entry } = await bundle({ directory: bundled, minify: true })
    const machine = await takeProcessor(choice.kind !== 'host')
    const { processor: number, hasPriority } = machine
    say(`Kernel: ${describeKernel(choice)}; everything is kept on processor ${number} of ${machine.processors}`)
    const boots: BootOptions = { choice, cwd: ROOT, signal, processor: { number, hasPriority } }
    return new CellBench(setting, {
      machine,
      boots,
      entry,
      calibrate: 'missing' in calibrate ? undefined : calibrate.program,
    })
  }

  private constructor(
    setting: OverSizeSetting,
    prepared: {
      readonly machine: Machine
      readonly boots: BootOptions
      readonly entry: string
      readonly calibrate: string | undefined
    },
  ) {
    this.#setting = setting
    this.#machine = prepared.machine
    this.#boots = prepared.boots
    this.#entry = prepared.entry
    this.#calibrate = prepared.calibrate
  }

  /** One boot; undefined when this kernel cannot run the mode. */
  async cell(series: SeriesName, services: number): Promise<Cell | undefined> {
    const missing = await this.#whyNot(series)
    if (missing !== undefined) {
      say(`  not measured: this kernel does not take its rules: ${missing}`)
      return undefined
    }
    const { options, choice } = this.#setting
    const limits = limitsOf(options, series)
    const at = new Date().toISOString()
    const average = loadavg()
    const timeoutMs =
      BESIDE_MS +
      services * BESIDE_A_SERVICE_MS +
      1000 * (limits.coldStartSeconds + limits.changeSeconds + limits.changesSeconds + limits.idleSeconds)
    const ended = await boot(this.#command(series, services, limits), timeoutMs, bootsFor(services, this.#boots)).catch(
      (error: unknown) => {
        this.#setting.signal.throwIfAborted()
        return {
          code: 1,
          stdout: '',
          disturbance: undefined,
          failure: error instanceof Error ? error.message : String(error),
        }
      },
    )
    const outcome = outcomeOf(ended)
    if ('failure' in outcome) say(`  failed: ${outcome.failure}`)
    return {
      series,
      services,
      endpoints: options.endpoints,
      at,
      commit: commitOf(ROOT),
      version: this.#version(series),
      node: process.version,
      kernel: { kind: choice.kind, release: /^release=(.*)$/m.exec(ended.stdout)?.[1] ?? null },
      machine: this.#machine,
      load: { average, ...(ended.disturbance ?? { othersPercent: 0, stealPercent: 0 }) },
      calibration: parseCalibration(ended.stdout) ?? null,
      limits,
      changes: options.changes,
      measured: 'measured' in outcome ? outcome.measured : null,
      failure: 'failure' in outcome ? outcome.failure : null,
    }
  }

  async #whyNot(series: SeriesName): Promise<string | undefined> {
    const { mode } = SERIES[series]
    if (mode === 'ipvs') return undefined
    if (!this.#missing.has(mode)) this.#missing.set(mode, await whyNot(mode, this.#boots))
    return this.#missing.get(mode)
  }

  #command(series: SeriesName, services: number, limits: CellLimits): string[] {
    const { options, kubeProxy } = this.#setting
    const { program, mode, virtualAddresses } = SERIES[series]
    const task: GuestTask = {
      program,
      mode,
      virtualAddresses,
      work: 'cell',
      services,
      endpoints: options.endpoints,
      changes: options.changes,
      idleSeconds: limits.idleSeconds,
      slope: false,
      nodeFlags: options.nodeFlags,
      command: program === 'kube-proxy' ? resolve(kubeProxy ?? '') : this.#entry,
      cell: limits,
    }
    const script = [
      'echo "release=$(uname -r)"',
      ...(this.#calibrate === undefined ? [] : [this.#calibrate]),
      'exec "$@"',
    ]
    const guest = [process.execPath, join(ROOT, 'dev/bench/guest.ts'), JSON.stringify(task)]
    return ['sh', '-c', script.join('\n'), 'sh', ...guest]
  }

  #version(series: SeriesName): string {
    const { kubeProxy } = this.#setting
    if (SERIES[series].program === 'kube-proxy')
      return `kube-proxy ${execFileSync(resolve(kubeProxy ?? ''), ['--version'], { encoding: 'utf8', timeout: 10_000 }).trim()}`
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }
    return `kube-ipvs ${version}`
  }
}

function limitsOf({ idleSeconds, overSize }: BenchOptions, series: SeriesName): CellLimits {
  const { program, mode } = SERIES[series]
  return {
    coldStartSeconds: overSize?.deadlineSeconds ?? 0,
    changeSeconds: CHANGE_SECONDS,
    changesSeconds: CHANGES_SECONDS,
    betweenChangesMs: program === 'kube-ipvs' && mode === 'ipvs' ? BETWEEN_OURS_MS : BETWEEN_CHANGES_MS,
    idleSeconds,
  }
}

/** The last line is the guest's, after those of the calibration. */
function outcomeOf({
  code,
  stdout,
  failure,
}: {
  readonly code: number
  readonly stdout: string
  readonly failure?: string
}): CellOutcome {
  if (failure !== undefined) return { failure }
  if (code !== 0) return { failure: `the boot ended with code ${code}` }
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as CellOutcome // written by bench/guest.ts
}

function readCells(file: string): Cell[] {
  const text = readIfThere(file)
  return text === undefined ? [] : parseCells(text, file)
}

/** An interrupted run leaves the file as it was. */
function writeWhole(path: string, text: string): void {
  writeFileSync(`${path}.new`, text)
  renameSync(`${path}.new`, path)
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
