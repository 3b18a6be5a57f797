/**
 * `npm run bench -- --experiment`: what a client notices of the number of Services, and what the programs cost at each, one boot for each cell.
 * A cell is stored as soon as it is measured, and is not measured again by a later run, so the whole can be made in pieces.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type Cell, type CellName, cellOf, formatCells, parseCells, withCell } from './cell.ts'
import { PAGES, figuresOf, plotsOf } from './experiment-result.ts'
import { Host, type HostSetting, ROOT, say } from './host.ts'
import type { GuestTask } from './task.ts'
import type { BenchOptions, Experiment } from './options.ts'
import { withFigures } from './page.ts'
import { commitOf } from './record.ts'
import { roundedMeasured } from './result.ts'
import { SERIES, SIZES } from './series.ts'
import { COUNTS } from './traffic.ts'

const CELLS = 'experiment.jsonl'

export interface ExperimentSetting extends HostSetting {
  readonly options: BenchOptions
  readonly plan: Experiment
}

/** Measures what is missing and writes tables and charts; the paths of what it wrote. */
export async function runExperiment(setting: ExperimentSetting): Promise<string[]> {
  const { plan, options } = setting
  const { endpoints } = options
  const folder = resolve(ROOT, plan.directory)
  mkdirSync(folder, { recursive: true })
  let cells = parseCells(readIfThere(join(folder, CELLS)) ?? '', CELLS)
  const names = plan.series.flatMap((series) =>
    (plan.sizes ?? SIZES[SERIES[series].what]).map((services) => ({ series, services, endpoints })),
  )
  // A cell that failed is measured again.
  const wanted = plan.drawOnly
    ? []
    : names.filter((name) => plan.again || (cellOf(cells, name)?.measured ?? null) === null)
  if (wanted.length > 0) {
    const host = await Host.prepare(setting)
    for (const [index, name] of wanted.entries()) {
      say(`${name.series} at ${name.services} Services (cell ${index + 1} of ${wanted.length})`)
      const missing = await host.whyNot(SERIES[name.series].mode)
      if (missing !== undefined) {
        say(`  not measured: this kernel does not take its rules: ${missing}`)
        continue
      }
      cells = withCell(cells, await measureCell(setting, host, name))
      writeWhole(join(folder, CELLS), formatCells(cells))
    }
  }
  return writeExperiment(cells, folder, endpoints)
}

/** Writes the charts, and the figures of the folder's pages if it has them, from the cells with so many endpoints; the paths. */
export function writeExperiment(cells: readonly Cell[], folder: string, endpoints: number): string[] {
  const shown = cells.filter((cell) => cell.endpoints === endpoints)
  const files: Record<string, string> = { ...plotsOf(shown) }
  for (const what of ['traffic', 'cost'] as const) {
    const page = readIfThere(join(folder, PAGES[what]))
    if (page !== undefined) files[PAGES[what]] = withFigures(page, figuresOf(what, shown))
  }
  return Object.entries(files).map(([name, text]) => {
    const path = join(folder, name)
    writeWhole(path, text)
    return path
  })
}

async function measureCell(setting: ExperimentSetting, host: Host, name: CellName): Promise<Cell> {
  const task = await taskOf(host, name)
  const { outcome, at, average, release, calibration, disturbance } = await host.measure(task)
  if ('failure' in outcome) say(`  failed: ${outcome.failure}`)
  return {
    ...name,
    at,
    commit: commitOf(ROOT),
    version: versionOf(task),
    node: process.version,
    kernel: { kind: setting.choice.kind, release },
    machine: host.machine,
    load: { average, ...(disturbance ?? { othersPercent: 0, stealPercent: 0 }) },
    calibration: calibration ?? null,
    limits: task.limits,
    changes: task.changes,
    measured: 'measured' in outcome ? roundedMeasured(outcome.measured) : null,
    failure: 'failure' in outcome ? outcome.failure : null,
  }
}

async function taskOf(host: Host, name: CellName): Promise<GuestTask> {
  const { what, ...subject } = SERIES[name.series]
  const { services, endpoints } = name
  const common = { ...subject, services, endpoints, command: host.commandOf(subject.program) }
  // 1.2 s is longer than minSyncPeriod, so that no change waits for it; ours in ipvs mode has none.
  const betweenChangesMs = subject.program === 'kube-ipvs' && subject.mode === 'ipvs' ? 20 : 1_200
  if (what === 'traffic')
    return {
      ...common,
      phases: ['traffic', 'changes'],
      changes: 20,
      traffic: { ...COUNTS, program: await host.traffic() },
      limits: { coldStartSeconds: 600, changeSeconds: 600, changesSeconds: 60, betweenChangesMs, idleSeconds: 0 },
    }
  return {
    ...common,
    phases: ['rest', 'changes'],
    changes: 100,
    limits: { coldStartSeconds: 300, changeSeconds: 120, changesSeconds: 30, betweenChangesMs, idleSeconds: 40 },
  }
}

function versionOf({ program, command }: GuestTask): string {
  if (program === 'kube-proxy')
    return `kube-proxy ${execFileSync(command, ['--version'], { encoding: 'utf8', timeout: 10_000 }).trim()}`
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }
  return `kube-ipvs ${version}`
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
