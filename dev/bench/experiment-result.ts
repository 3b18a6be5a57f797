/** The results of the experiment, and the files that show them: JSON, CSV, charts and the figures of its page. Pure. */
import type { Calibration } from './calibration.ts'
import type { Disturbance, Machine } from './machine.ts'
import type { BenchOptions } from './options.ts'
import { formatNumber, markdownTable, withFigures } from './page.ts'
import { type Chart, svgOf } from './plot.ts'
import type { Run } from './record.ts'
import type { Mode } from './result.ts'
import { percentile, rounded } from './statistics.ts'
import type { TrafficMeasured } from './traffic.ts'

/** One size in one mode; each number is the median over the boots. */
export interface ExperimentPoint extends TrafficMeasured {
  readonly mode: Mode
  readonly services: number
  readonly boots: number
}

export interface Experiment extends Pick<Run, 'at' | 'commit' | 'kernel' | 'trusted' | 'reasons'> {
  readonly machine: Machine
  readonly load: Disturbance & { readonly average: readonly number[] }
  readonly calibration: Calibration | null
  readonly method: readonly string[]
  readonly options: Pick<BenchOptions, 'sizes' | 'endpoints' | 'modes' | 'repeats' | 'changes'> &
    Omit<NonNullable<BenchOptions['experiment']>, 'directory'>
  readonly points: readonly ExperimentPoint[]
}

/** Columns of the CSV in their order, with the digits after the point. */
const COLUMNS = {
  rulesBefore: 0,
  latencyP50Us: 1,
  latencyP99Us: 1,
  connectionsPerSecond: 1,
  changes: 0,
  changeP50Ms: 2,
  changeP99Ms: 2,
} as const satisfies Record<keyof TrafficMeasured, number>
const FIELDS = Object.keys(COLUMNS) as readonly (keyof TrafficMeasured)[] // the keys of the literal above

/** The point of all boots of one size and mode. */
export function pointOf(mode: Mode, services: number, boots: readonly TrafficMeasured[]): ExperimentPoint {
  const median = (field: keyof TrafficMeasured): number | null =>
    rounded(
      percentile(
        boots.map((boot) => boot[field]).filter((value) => value !== null),
        0.5,
      ),
      COLUMNS[field],
    )
  return {
    mode,
    services,
    boots: boots.length,
    rulesBefore: median('rulesBefore'),
    latencyP50Us: median('latencyP50Us'),
    latencyP99Us: median('latencyP99Us'),
    connectionsPerSecond: median('connectionsPerSecond'),
    changes: median('changes') ?? 0,
    changeP50Ms: median('changeP50Ms'),
    changeP99Ms: median('changeP99Ms'),
  }
}

/** A heading line and a line for each point; a number that was not measured is empty. */
export function csvOf(points: readonly ExperimentPoint[]): string {
  const rows = points.map((point) => [
    point.mode,
    point.services,
    point.boots,
    ...FIELDS.map((field) => point[field] ?? ''),
  ])
  return [['mode', 'services', 'boots', ...FIELDS], ...rows].map((row) => `${row.join(',')}\n`).join('')
}

/** The files of the plots, by name. */
export function plotsOf(points: readonly ExperimentPoint[]): Readonly<Record<string, string>> {
  const xLabel = 'Services present'
  return {
    'latency.svg': svgOf({
      title: 'Latency of a request on a new connection',
      xLabel,
      yLabel: 'connect, request, response (µs)',
      yScale: 'linear',
      series: seriesOf(points, [
        ['latencyP50Us', 'median', false],
        ['latencyP99Us', '99th percentile', true],
      ]),
    }),
    'connections.svg': svgOf({
      title: 'New connections a second through one ClusterIP',
      xLabel,
      yLabel: 'connections a second',
      yScale: 'linear',
      series: seriesOf(points, [['connectionsPerSecond', '', false]]),
    }),
    'change.svg': svgOf({
      title: 'From a change in the API to the kernel',
      xLabel,
      yLabel: 'milliseconds (logarithmic)',
      yScale: 'log',
      series: seriesOf(points, [
        ['changeP50Ms', 'median', false],
        ['changeP99Ms', '99th percentile', true],
      ]),
    }),
  }
}

function seriesOf(
  points: readonly ExperimentPoint[],
  fields: readonly (readonly [field: keyof TrafficMeasured, name: string, dashed: boolean])[],
): Chart['series'] {
  return fields.flatMap(([field, name, dashed]) =>
    (['ipvs', 'iptables'] as const).flatMap((mode) => {
      const measured = points.flatMap((point) => {
        const value = point[field]
        return point.mode === mode && value !== null ? [[point.services, value] as const] : []
      })
      const colour = mode === 'ipvs' ? 'first' : 'second'
      const text = `${mode} mode${name === '' ? '' : `, ${name}`}`
      return measured.length === 0 ? [] : [{ name: text, colour, dashed, points: measured } as const]
    }),
  )
}

/** The page with the figures of this run in place of the earlier ones. Throws when it has no place for them. */
export function withExperiment(page: string, experiment: Experiment): string {
  return withFigures(page, '--experiment', figuresOf(experiment))
}

/** Circumstances and the table in Markdown. */
function figuresOf({ at, commit, kernel, machine, load, options, trusted, reasons, points }: Experiment): string {
  const rows = points
    .toSorted((a, b) => a.services - b.services || (a.mode < b.mode ? 1 : -1))
    .map((point) => [
      formatNumber(point.services, 0),
      point.mode,
      formatNumber(point.rulesBefore, 0),
      formatNumber(point.latencyP50Us, 0),
      formatNumber(point.latencyP99Us, 0),
      formatNumber(point.connectionsPerSecond, 0),
      formatNumber(point.changeP50Ms, 1),
      formatNumber(point.changeP99Ms, 1),
    ])
  const heading = [
    'Services',
    'mode',
    'rules before',
    'latency p50 (µs)',
    'latency p99 (µs)',
    'connections/s',
    'change p50 (ms)',
    'change p99 (ms)',
  ]
  const table = markdownTable(heading, rows, [1])
  const verdict = trusted
    ? 'The machine was quiet enough for the figures to be compared.'
    : `**The machine was too busy for exact figures**: ${reasons.join('; ')}. The shape of the curves is what to read here.`
  return [
    `Measured on ${at.slice(0, 16).replace('T', ' ')} UTC, commit ${commit === null ? 'unknown' : commit.hash.slice(0, 12)}${commit?.changed === true ? ' with changes' : ''}, ` +
      `kernel ${kernel.kind} ${kernel.release ?? ''} on one processor of ${machine.processors} (${machine.model}); load average before the run ` +
      `${load.average.map((one) => one.toFixed(2)).join(' ')}. ${options.endpoints} endpoints a Service, ${options.requests} requests, ` +
      `${options.connections} connections by ${options.clients} clients, ${options.changes} changes, boots of each point: ${options.repeats}.`,
    '',
    verdict,
    '',
    ...table,
  ].join('\n')
}
