/** The command line of `npm run bench`. The guest gets the same options as JSON, so they are plain values. */
import { parseArgs } from 'node:util'
import type { Mode } from './result.ts'
import { isSeriesName, SERIES, SERIES_NAMES, type SeriesName } from './series.ts'

/** The traffic during each event of a handover. */
export interface HandoverCounts {
  /** Established connections. */
  readonly held: number
  /** New connections: at least so many. */
  readonly connections: number
  /** New connections a second. */
  readonly rate: number
}

/** Which cells of the experiment are measured, and where they are stored. */
export interface Experiment {
  readonly series: readonly SeriesName[]
  /** Absent: those of each series. */
  readonly sizes?: readonly number[]
  /** The folder of the cells, the tables and the charts. */
  readonly directory: string
  /** Also cells that the file has already. */
  readonly again: boolean
  /** Nothing is measured: tables and charts are written from the cells that there are. */
  readonly drawOnly: boolean
}

export interface BenchOptions {
  /** Numbers of Services, one measurement each. */
  readonly sizes: readonly number[]
  /** Endpoints of each Service. */
  readonly endpoints: number
  /** Modes that are measured, one after the other. */
  readonly modes: readonly Mode[]
  /** `kubeIPVS.virtualAddresses` of our program and of the floor. */
  readonly virtualAddresses: 'addresses' | 'routes'
  /** How often each program is started in a fresh boot. */
  readonly repeats: number
  /** In a network namespace of this machine's own kernel instead of a guest; iptables mode only. */
  readonly native: boolean
  readonly output: 'text' | 'json'
  /** File to which one line of JSON is appended for this run. */
  readonly jsonFile?: string
  /** Such a file: its last two runs are compared, and nothing is measured. */
  readonly compare?: string
  /** Command line of another proxy, with `{kubeconfig}` and `{config}` for paths; absent: this project's bundle. */
  readonly proxy?: string
  /** The maximum number of timed endpoint changes. */
  readonly changes: number
  /** Length of the idle measurement in seconds. */
  readonly idleSeconds: number
  /** Also measures how memory grows over 10,000 changes, which takes some minutes. */
  readonly slope: boolean
  /** Also times single changes beside nothing and beside a burst; ipvs mode only. */
  readonly burstWithProbe: boolean
  /** Only cells of a table are measured: every program in every way at every size, one boot each. */
  readonly experiment?: Experiment
  /** Only changes beside hostile objects are measured. */
  readonly hostile: boolean
  /** Only handovers are measured: traffic while one proxy follows another, and while the mode changes. */
  readonly handover?: HandoverCounts
}

const MAX_SERVICES = 200_000
/** Below the number of ports of one client address, because no port may be used twice in a boot. */
const MAX_CONNECTIONS = 30_000
const MAX_HELD = 9_000
const MAX_RATE = 2_000
/** Options that would change or replace what these measure. */
const REFUSED = {
  experiment: ['handover', 'native', 'proxy', 'mode', 'virtual-addresses', 'repeats', 'changes', 'idle-seconds'],
  handover: ['experiment', 'native', 'proxy', 'virtual-addresses', 'repeats', 'changes', 'idle-seconds'],
  hostile: ['experiment', 'handover', 'native', 'proxy', 'mode', 'virtual-addresses', 'repeats', 'idle-seconds'],
} as const

/** The options, or one line that says what is wrong. @param withKubeProxy KUBE_PROXY names a program to measure beside ours */
export function parseBenchOptions(
  args: readonly string[],
  withKubeProxy = false,
): BenchOptions | { readonly error: string } {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        services: { type: 'string', multiple: true },
        endpoints: { type: 'string', default: '5' },
        mode: { type: 'string', multiple: true },
        'virtual-addresses': { type: 'string' },
        repeats: { type: 'string' },
        native: { type: 'boolean' },
        output: { type: 'string', short: 'o', default: 'text' },
        'json-file': { type: 'string' },
        compare: { type: 'string' },
        proxy: { type: 'string' },
        changes: { type: 'string' },
        'idle-seconds': { type: 'string' },
        slope: { type: 'boolean', default: false },
        'burst-with-probe': { type: 'boolean', default: false },
        experiment: { type: 'boolean' },
        series: { type: 'string', multiple: true },
        again: { type: 'boolean', default: false },
        'draw-only': { type: 'boolean', default: false },
        directory: { type: 'string', default: 'docs/performance' },
        hostile: { type: 'boolean' },
        handover: { type: 'boolean' },
        held: { type: 'string', default: '1000' },
        connections: { type: 'string', default: '10000' },
        rate: { type: 'string', default: '500' },
      },
    })
    const { experiment = false, handover = false, hostile = false, native = false, output } = values
    for (const name of ['experiment', 'handover', 'hostile'] as const) {
      const refused = REFUSED[name].filter((option) => values[name] === true && values[option] !== undefined)
      if (refused.length > 0) return { error: `--${name} is always measured in the same way, not with --${refused[0]}` }
    }
    const virtualAddresses = values['virtual-addresses'] ?? 'addresses'
    if (virtualAddresses !== 'addresses' && virtualAddresses !== 'routes')
      return { error: '--virtual-addresses is addresses or routes' }
    if (output !== 'text' && output !== 'json') return { error: '--output is text or json' }
    const modes = values.mode?.flatMap((text) => text.split(',')).map(modeOf)
    if (native && modes?.includes('ipvs') === true)
      return { error: "--native measures iptables mode only: ipvs mode would need IPVS in this machine's own kernel" }
    const sizes = values.services
      ?.flatMap((text) => text.split(','))
      .map((text) => whole('services', text, MAX_SERVICES))
    return {
      sizes: sizes ?? (handover || hostile ? [1_000] : [100, 1_000, 10_000]),
      endpoints: whole('endpoints', values.endpoints, 1000),
      modes: modes ?? (native ? ['iptables'] : withKubeProxy || handover ? ['ipvs', 'iptables'] : ['ipvs']),
      virtualAddresses,
      repeats: whole('repeats', values.repeats ?? '3', 100),
      native,
      output,
      changes: whole('changes', values.changes ?? (hostile ? '300' : '200'), 100_000),
      idleSeconds: whole('idle-seconds', values['idle-seconds'] ?? '60', 86_400),
      slope: values.slope,
      burstWithProbe: values['burst-with-probe'],
      hostile,
      ...(values['json-file'] === undefined ? {} : { jsonFile: values['json-file'] }),
      ...(values.compare === undefined ? {} : { compare: values.compare }),
      ...(values.proxy === undefined ? {} : { proxy: values.proxy }),
      ...(experiment
        ? {
            experiment: {
              series: seriesOf(values.series, withKubeProxy),
              ...(sizes === undefined ? {} : { sizes }),
              directory: values.directory,
              again: values.again,
              drawOnly: values['draw-only'],
            },
          }
        : {}),
      ...(handover
        ? {
            handover: {
              held: whole('held', values.held, MAX_HELD),
              connections: whole('connections', values.connections, MAX_CONNECTIONS),
              rate: whole('rate', values.rate, MAX_RATE),
            },
          }
        : {}),
    }
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) }
  }
}

function whole(name: string, text: string, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : 0
  if (value < 1 || value > max) throw new Error(`--${name} is a whole number from 1 to ${max}, not "${text}"`)
  return value
}

/** The named series; all that can be measured when none is named. */
function seriesOf(texts: readonly string[] | undefined, withKubeProxy: boolean): readonly SeriesName[] {
  if (texts === undefined) return SERIES_NAMES.filter((name) => withKubeProxy || SERIES[name].program !== 'kube-proxy')
  return texts
    .flatMap((text) => text.split(','))
    .map((text) => {
      if (!isSeriesName(text)) throw new Error(`--series is one of ${SERIES_NAMES.join(', ')}, not "${text}"`)
      if (SERIES[text].program === 'kube-proxy' && !withKubeProxy)
        throw new Error(`--series ${text} needs KUBE_PROXY=PATH`)
      return text
    })
}

function modeOf(text: string): Mode {
  if (text !== 'ipvs' && text !== 'iptables') throw new Error(`--mode is ipvs or iptables, not "${text}"`)
  return text
}
