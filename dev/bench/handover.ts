/**
 * `npm run bench -- --handover`: established and new connections through one ClusterIP while one
 * proxy follows another and while the mode changes, each event in a fresh boot.
 */
import { join, resolve } from 'node:path'
import { kernelWithModules } from '../kernel/choice.ts'
import { boot } from './boot.ts'
import type { HandoverTask } from './handover-guest.ts'
import {
  type Handover,
  HANDOVER_EVENTS,
  type HandoverEvent,
  type HandoverMeasured,
  type HandoverPoint,
} from './handover-result.ts'
import { Host, type HostSetting, ROOT, say } from './host.ts'
import type { BenchOptions } from './options.ts'
import { commitOf } from './record.ts'
import type { Mode } from './result.ts'

const GUEST = join(ROOT, 'dev/bench/handover-guest.ts')
const BOOT_TIMEOUT_MS = 1_800_000
/** Established connections, new ones at least, and new ones a second. */
const COUNTS = { held: 1_000, connections: 10_000, rate: 500 } as const

/** Resolves when every event is measured, at the first of the sizes. */
export async function runHandover(setting: HostSetting, options: BenchOptions): Promise<Handover> {
  const { choice, kubeProxy } = setting
  const { sizes, endpoints, modes } = options
  const at = new Date().toISOString()
  const [services = 0] = sizes
  const host = await Host.prepare(setting)
  const traffic = await host.traffic()
  if ('missing' in traffic) throw new Error(`The measurement needs its clients: ${traffic.missing}`)
  const { stdout } = await boot(['uname', '-r'], BOOT_TIMEOUT_MS, host.boots)
  const points: HandoverPoint[] = []
  for (const { event, mode } of planOf(modes)) {
    const kernel = event === 'fallback' ? kernelWithModules(choice) : choice
    if (kernel === undefined) {
      say('Fallback and return are not measured: no kernel whose IPVS is a module is installed (user-mode-linux).')
      continue
    }
    const proxy = kubeProxy === undefined ? {} : { kubeProxy: resolve(kubeProxy) }
    const programs = { command: host.entry, traffic: traffic.program, ...proxy }
    const task: HandoverTask = { ...COUNTS, event, mode, services, endpoints, ...programs }
    const command = [process.execPath, GUEST, JSON.stringify(task)]
    const { code, stdout: line } = await boot(command, BOOT_TIMEOUT_MS, { ...host.boots, choice: kernel })
    if (code !== 0) throw new Error(`${event} in ${mode} mode ended with code ${code}`)
    const measured = JSON.parse(line) as HandoverMeasured // written by handover-guest.ts
    const stateOf = event === 'adopt' && kubeProxy !== undefined ? 'kube-proxy' : 'kube-ipvs'
    points.push({ event, mode, stateOf, ...measured })
    const { held, made } = measured
    say(
      `  ${event} in ${mode} mode: ${held.dropped} of ${held.connections} dropped, ${made.failed} of ${made.made} failed`,
    )
  }
  const kernel = { kind: choice.kind, release: stdout.trim() }
  return { at, commit: commitOf(ROOT), kernel, services, endpoints, rate: COUNTS.rate, points }
}

/** Every event in every mode. A switch begins in ipvs mode and passes through both; so does a fallback. */
export function planOf(modes: readonly Mode[]): { readonly event: HandoverEvent; readonly mode: Mode }[] {
  const fromIpvs: ReadonlySet<HandoverEvent> = new Set(['switch', 'switch by restart', 'fallback'])
  return HANDOVER_EVENTS.flatMap((event) =>
    modes.filter((mode) => mode === 'ipvs' || !fromIpvs.has(event)).map((mode) => ({ event, mode })),
  )
}
