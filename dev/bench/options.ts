/**
 * The command line of `npm run bench`.
 * What could break: the guest gets the same options as JSON, so they are plain values.
 */
import { parseArgs } from 'node:util'
import { NODE_FLAGS } from '../node-flags.ts'

export interface BenchOptions {
  /** Numbers of Services, one measurement each. */
  readonly sizes: readonly number[]
  /** Endpoints of each Service. */
  readonly endpoints: number
  readonly output: 'text' | 'json'
  /** Command line of another proxy, with `{kubeconfig}` and `{config}` for paths; absent: this project's bundle. */
  readonly proxy?: string
  /** Endpoint changes that are timed, at most. */
  readonly changes: number
  /** Length of the idle measurement in seconds. */
  readonly idleSeconds: number
  /** Also measures how memory grows over 10,000 changes, which takes some minutes. */
  readonly slope: boolean
  /** Folder for CPU profiles and heap statistics of the program measured; absent: none are made. */
  readonly profile?: string
  /** Flags for node before the bundle's path. */
  readonly nodeFlags: readonly string[]
}

export const DEFAULT_SIZES: readonly number[] = [100, 1_000, 10_000]
const MAX_SERVICES = 200_000

/** The options, or one line that says what is wrong. */
export function parseBenchOptions(args: readonly string[]): BenchOptions | { readonly error: string } {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        services: { type: 'string', multiple: true },
        endpoints: { type: 'string', default: '5' },
        output: { type: 'string', short: 'o', default: 'text' },
        proxy: { type: 'string' },
        changes: { type: 'string', default: '200' },
        'idle-seconds': { type: 'string', default: '60' },
        slope: { type: 'boolean', default: false },
        profile: { type: 'string' },
        'node-flags': { type: 'string', default: NODE_FLAGS.join(' ') },
      },
    })
    if (values.output !== 'text' && values.output !== 'json') return { error: '--output is text or json' }
    const sizes = values.services
      ?.flatMap((text) => text.split(','))
      .map((text) => whole('services', text, MAX_SERVICES))
    return {
      sizes: sizes ?? DEFAULT_SIZES,
      endpoints: whole('endpoints', values.endpoints, 1000),
      output: values.output,
      changes: whole('changes', values.changes, 100_000),
      idleSeconds: whole('idle-seconds', values['idle-seconds'], 86_400),
      slope: values.slope,
      nodeFlags: values['node-flags'].split(' ').filter((flag) => flag !== ''),
      ...(values.proxy === undefined ? {} : { proxy: values.proxy }),
      ...(values.profile === undefined ? {} : { profile: values.profile }),
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
