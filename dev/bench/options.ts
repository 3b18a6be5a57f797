/** The command line of `npm run bench`. */
import { parseArgs } from 'node:util'
import type { Firewall, Mode } from './result.ts'

export interface BenchOptions {
  /**
   * What is measured: what a program costs, connections while one proxy follows another, or changes
   * beside hostile objects.
   */
  readonly what: 'cost' | 'handover' | 'hostile'
  /** Numbers of Services, one measurement each; the two others use the first. */
  readonly sizes: readonly number[]
  /** Endpoints of each Service. */
  readonly endpoints: number
  readonly modes: readonly Mode[]
  /** `kubeIPVS.firewall` of our program in ipvs mode, one measurement each. */
  readonly firewalls: readonly Firewall[]
  /** `kubeIPVS.virtualAddresses` of our program and of the floor. */
  readonly virtualAddresses: 'addresses' | 'routes'
  /** How often each program is started in a fresh boot. */
  readonly repeats: number
  /** The maximum number of timed endpoint changes. */
  readonly changes: number
  /** Length of the measurement at rest. */
  readonly idleSeconds: number
  readonly output: 'text' | 'json'
}

const MAX_SERVICES = 200_000
/** What the measurements of a fixed form refuse. */
const REFUSED = {
  handover: ['hostile', 'firewall', 'virtual-addresses', 'repeats', 'changes', 'idle-seconds'],
  hostile: ['handover', 'mode', 'firewall', 'virtual-addresses', 'repeats', 'idle-seconds'],
} as const

/**
 * The options, or one line that says what is wrong. @param withKubeProxy KUBE_PROXY names a program
 * to measure beside ours
 */
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
        firewall: { type: 'string', multiple: true },
        'virtual-addresses': { type: 'string' },
        repeats: { type: 'string' },
        changes: { type: 'string' },
        'idle-seconds': { type: 'string' },
        output: { type: 'string', short: 'o', default: 'text' },
        handover: { type: 'boolean' },
        hostile: { type: 'boolean' },
      },
    })
    const what = values.handover === true ? 'handover' : values.hostile === true ? 'hostile' : 'cost'
    const refused = what === 'cost' ? undefined : REFUSED[what].find((option) => values[option] !== undefined)
    if (refused !== undefined) return { error: `--${what} has a fixed form and takes no --${refused}` }
    const sizes = parts(values.services)?.map((text) => whole('services', text, MAX_SERVICES))
    return {
      what,
      sizes: sizes ?? (what === 'cost' ? [100, 1_000, 10_000] : [1_000]),
      endpoints: whole('endpoints', values.endpoints, 1_000),
      modes:
        parts(values.mode)?.map((text) => oneOf('mode', text, ['ipvs', 'iptables'])) ??
        (withKubeProxy || what === 'handover' ? ['ipvs', 'iptables'] : ['ipvs']),
      firewalls: parts(values.firewall)?.map((text) => oneOf('firewall', text, ['iptables', 'nftables'])) ?? [
        'iptables',
      ],
      virtualAddresses: oneOf('virtual-addresses', values['virtual-addresses'] ?? 'addresses', ['addresses', 'routes']),
      repeats: whole('repeats', values.repeats ?? '3', 100),
      changes: whole('changes', values.changes ?? (what === 'hostile' ? '300' : '200'), 100_000),
      idleSeconds: whole('idle-seconds', values['idle-seconds'] ?? '60', 86_400),
      output: oneOf('output', values.output, ['text', 'json']),
    }
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) }
  }
}

const parts = (texts: readonly string[] | undefined): string[] | undefined => texts?.flatMap((text) => text.split(','))

function whole(name: string, text: string, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : 0
  if (value < 1 || value > max) throw new Error(`--${name} is a whole number from 1 to ${max}, not "${text}"`)
  return value
}

function oneOf<T extends string>(name: string, text: string, allowed: readonly T[]): T {
  const value = allowed.find((one) => one === text)
  if (value === undefined) throw new Error(`--${name} is ${allowed.join(' or ')}, not "${text}"`)
  return value
}
