/** The command line of `npm run bench`. The guest gets the same options as JSON, so they are plain values. */
import { parseArgs } from 'node:util'
import { NODE_FLAGS } from '../node-flags.ts'
import type { Mode } from './result.ts'
import { isSeriesName, SERIES, SERIES_NAMES, type SeriesName } from './series.ts'

/** How much traffic the experiment sends in each boot. */
export interface ExperimentCounts {
  /** New connections one after the other, whose latency is measured. */
  readonly requests: number
  /** New connections of all clients together, whose rate is measured. */
  readonly connections: number
  /** Processes that make those connections at the same time. */
  readonly clients: number
}

/** The traffic during each event of a handover. */
export interface HandoverCounts {
  /** Established connections. */
  readonly held: number
  /** New connections: at least so many. */
  readonly connections: number
  /** New connections a second. */
  readonly rate: number
}

/** What the measurement over size measures and where it stores it. */
export interface OverSize {
  readonly series: readonly SeriesName[]
  /** The folder of the cells, the table and the charts. */
  readonly directory: string
  /** Also cells that the file has already. */
  readonly again: boolean
  /** Nothing is measured: table and charts are written from the cells that there are. */
  readonly drawOnly: boolean
  /** The limit of a cold start. */
  readonly deadlineSeconds: number
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
  /** Also measures how memory grows over many changes, which takes some minutes. */
  readonly slope: boolean
  /** How many changes that are. */
  readonly slopeChanges: number
  /** Also times single changes beside nothing and beside a burst; ipvs mode only. */
  readonly burstWithProbe: boolean
  /** Folder for CPU profiles and heap statistics of the program measured; absent: none are made. */
  readonly profile?: string
  /** Flags for node before the bundle's path. */
  readonly nodeFlags: readonly string[]
  /** Only the experiment is run: traffic through one ClusterIP beside many Services, in both modes. */
  readonly experiment?: ExperimentCounts & {
    /** The folder that the results are written to. */
    readonly directory: string
  }
  /** Only cells of a table are measured: every program in every way at every size, one boot each. */
  readonly overSize?: OverSize
  /** Only handovers are measured: traffic while one proxy follows another, and while the mode changes. */
  readonly handover?: HandoverCounts
}

export const DEFAULT_SIZES: readonly number[] = [100, 1_000, 10_000]
export const EXPERIMENT_SIZES: readonly number[] = [1, 1_000, 5_000, 10_000]
const HANDOVER_SIZES: readonly number[] = [1_000]
export const OVER_SIZE_SIZES: readonly number[] = [100, 1_000, 5_000, 10_000, 50_000]
const MAX_SERVICES = 200_000
/** Together they must stay below the number of ports of one client address, because no port may be used twice in a boot. */
const MAX_CONNECTIONS = 30_000
const MAX_CLIENTS = 100
const MAX_HELD = 9_000
const MAX_RATE = 2_000

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
        native: { type: 'boolean', default: false },
        output: { type: 'string', short: 'o', default: 'text' },
        'json-file': { type: 'string' },
        compare: { type: 'string' },
        proxy: { type: 'string' },
        changes: { type: 'string' },
        'idle-seconds': { type: 'string' },
        slope: { type: 'boolean', default: false },
        'slope-changes': { type: 'string' },
        'burst-with-probe': { type: 'boolean', default: false },
        profile: { type: 'string' },
        experiment: { type: 'boolean', default: false },
        requests: { type: 'string', default: '2000' },
        handover: { type: 'boolean', default: false },
        connections: { type: 'string' },
        held: { type: 'string', default: '1000' },
        rate: { type: 'string', default: '500' },
        clients: { type: 'string', default: '8' },
        'over-size': { type: 'boolean', default: false },
        series: { type: 'string', multiple: true },
        again: { type: 'boolean', default: false },
        'draw-only': { type: 'boolean', default: false },
        'deadline-seconds': { type: 'string', default: '300' },
        directory: { type: 'string', default: 'docs/performance' },
        'node-flags': { type: 'string', default: NODE_FLAGS.join(' ') },
      },
    })
    const overSize = values['over-size']
    if (overSize && OVER_SIZE_REFUSES.some((name) => values[name] !== undefined && values[name] !== false))
      return {
        error: `--over-size measures in a guest what --series names: not with ${OVER_SIZE_REFUSES.map((name) => `--${name}`).join(', ')}`,
      }
    const virtualAddresses = values['virtual-addresses'] ?? 'addresses'
    if (virtualAddresses !== 'addresses' && virtualAddresses !== 'routes')
      return { error: '--virtual-addresses is addresses or routes' }
    if (values.output !== 'text' && values.output !== 'json') return { error: '--output is text or json' }
    const modes = values.mode?.flatMap((text) => text.split(',')).map(mode)
    if (values.native && modes?.includes('ipvs') === true)
      return { error: "--native measures iptables mode only: ipvs mode would need IPVS in this machine's own kernel" }
    const { experiment, handover } = values
    if (handover && (experiment || values.native || values.proxy !== undefined || values.compare !== undefined))
      return {
        error: '--handover measures this program in a guest: not with --experiment, --native, --proxy or --compare',
      }
    if (experiment && (values.native || values.proxy !== undefined || values.compare !== undefined))
      return { error: '--experiment measures this program in a guest: not with --native, --proxy or --compare' }
    const sizes = values.services
      ?.flatMap((text) => text.split(','))
      .map((text) => whole('services', text, MAX_SERVICES))
    return {
      sizes:
        sizes ??
        (experiment ? EXPERIMENT_SIZES : handover ? HANDOVER_SIZES : overSize ? OVER_SIZE_SIZES : DEFAULT_SIZES),
      endpoints: whole('endpoints', values.endpoints, 1000),
      modes:
        modes ??
        (values.native ? ['iptables'] : withKubeProxy || experiment || handover ? ['ipvs', 'iptables'] : ['ipvs']),
      virtualAddresses,
      repeats: whole('repeats', values.repeats ?? (experiment ? '1' : '3'), 100),
      native: values.native,
      output: values.output,
      changes: whole('changes', values.changes ?? (experiment ? '20' : overSize ? '100' : '200'), 100_000),
      idleSeconds: whole('idle-seconds', values['idle-seconds'] ?? (overSize ? '40' : '60'), 86_400),
      slope: values.slope || values['slope-changes'] !== undefined,
      slopeChanges: whole('slope-changes', values['slope-changes'] ?? '10000', 1_000_000),
      burstWithProbe: values['burst-with-probe'],
      nodeFlags: values['node-flags'].split(' ').filter((flag) => flag !== ''),
      ...(values['json-file'] === undefined ? {} : { jsonFile: values['json-file'] }),
      ...(values.compare === undefined ? {} : { compare: values.compare }),
      ...(values.proxy === undefined ? {} : { proxy: values.proxy }),
      ...(values.profile === undefined ? {} : { profile: values.profile }),
      ...(experiment
        ? {
            experiment: {
              requests: whole('requests', values.requests, MAX_CONNECTIONS),
              connections: whole('connections', values.connections ?? '8000', MAX_CONNECTIONS),
              clients: whole('clients', values.clients, MAX_CLIENTS),
              directory: values.directory,
            },
          }
        : {}),
      ...(overSize
        ? {
            overSize: {
              series: seriesOf(values.series, withKubeProxy),
              directory: values.directory,
              again: values.again,
              drawOnly: values['draw-only'],
              deadlineSeconds: whole('deadline-seconds', values['deadline-seconds'], 7_200),
            },
          }
        : {}),
      ...(handover
        ? {
            handover: {
              held: whole('held', values.held, MAX_HELD),
              connections: whole('connections', values.connections ?? '10000', MAX_CONNECTIONS),
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

/** Options that would change or replace what the measurement over size measures. */
const OVER_SIZE_REFUSES = [
  'experiment',
  'handover',
  'native',
  'proxy',
  'compare',
  'mode',
  'virtual-addresses',
  'repeats',
] as const

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

function mode(text: string): Mode {
  if (text !== 'ipvs' && text !== 'iptables') throw new Error(`--mode is ipvs or iptables, not "${text}"`)
  return text
}
