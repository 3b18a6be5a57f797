/**
 * `npm run bench -- --handover`: established and new connections through one ClusterIP while one proxy follows another and while the
 * mode changes, each event in a fresh boot.
 */
import { join, resolve } from 'node:path'
import { bundle } from '../bundle.ts'
import { describeKernel, type KernelChoice, kernelWithModules } from '../kernel/choice.ts'
import { boot, type BootOptions } from './boot.ts'
import { compile } from './floor.ts'
import type { HandoverTask } from './handover-guest.ts'
import {
  type Handover,
  HANDOVER_EVENTS,
  type HandoverEvent,
  type HandoverMeasured,
  type HandoverPoint,
} from './handover-result.ts'
import { takeProcessor } from './machine.ts'
import type { BenchOptions, HandoverCounts } from './options.ts'
import { commitOf } from './record.ts'
import type { Mode } from './result.ts'

const ROOT = join(import.meta.dirname, '../..')
const GUEST = join(ROOT, 'dev/bench/handover-guest.ts')
const BOOT_TIMEOUT_MS = 1_800_000
const say = (text: string): void => {
  process.stderr.write(`${text}\n`)
}

export interface HandoverSetting {
  readonly options: BenchOptions
  readonly counts: HandoverCounts
  readonly choice: KernelChoice
  /** For compiled programs. */
  readonly folder: string
  /** For the bundle. */
  readonly bundled: string
  readonly kubeProxy: string | undefined
  readonly signal: AbortSignal
}

/** Resolves when every event is measured, at the first of the sizes. */
export async function runHandover(setting: HandoverSetting): Promise<Handover> {
  const { options, counts, choice, folder, bundled, kubeProxy, signal } = setting
  const { sizes, endpoints, modes, nodeFlags } = options
  const at = new Date().toISOString()
  const [services = 0] = sizes
  const traffic = await compile(join(import.meta.dirname, 'traffic.c'), folder)
  if ('missing' in traffic) throw new Error(`The measurement needs its clients: ${traffic.missing}`)
  const { entry } = await bundle({ directory: bundled, minify: true })
  const machine = await takeProcessor(choice.kind !== 'host')
  const boots: BootOptions = {
    choice,
    cwd: ROOT,
    signal,
    processor: { number: machine.processor, hasPriority: machine.hasPriority },
  }
  say(`Kernel: ${describeKernel(choice)}; everything is kept on processor ${machine.processor}`)
  const { stdout } = await boot(['uname', '-r'], BOOT_TIMEOUT_MS, boots)
  const points: HandoverPoint[] = []
  for (const { event, mode } of planOf(modes)) {
    const kernel = event === 'fallback' ? kernelWithModules(choice) : choice
    if (kernel === undefined) {
      say(
        `Fallback and return are not measured: no kernel whose IPVS is a module is installed (package user-mode-linux).`,
      )
      continue
    }
    const task: HandoverTask = {
      ...counts,
      event,
      mode,
      services,
      endpoints,
      nodeFlags,
      command: entry,
      traffic: traffic.program,
      ...(kubeProxy === undefined ? {} : { kubeProxy: resolve(kubeProxy) }),
    }
    const command = [process.execPath, GUEST, JSON.stringify(task)]
    const { code, stdout: line } = await boot(command, BOOT_TIMEOUT_MS, { ...boots, choice: kernel })
    if (code !== 0) throw new Error(`${event} in ${mode} mode ended with code ${code}`)
    const measured = JSON.parse(line) as HandoverMeasured // written by handover-guest.ts
    points.push({
      event,
      mode,
      stateOf: event === 'adopt' && kubeProxy !== undefined ? 'kube-proxy' : 'kube-ipvs',
      ...measured,
    })
    say(
      `  ${event} in ${mode} mode: ${measured.held.dropped} of ${measured.held.connections} dropped, ${measured.made.failed} of ${measured.made.made} failed`,
    )
  }
  const release = stdout.trim()
  return {
    at,
    commit: commitOf(ROOT),
    kernel: { kind: choice.kind, release },
    services,
    endpoints,
    rate: counts.rate,
    points,
  }
}

/** Every event in every mode. A switch begins in ipvs mode and passes through both; so does a fallback. */
export function planOf(modes: readonly Mode[]): { readonly event: HandoverEvent; readonly mode: Mode }[] {
  const fromIpvs: ReadonlySet<HandoverEvent> = new Set(['switch', 'switch by restart', 'fallback'])
  return HANDOVER_EVENTS.flatMap((event) =>
    modes.filter((mode) => mode === 'ipvs' || !fromIpvs.has(event)).map((mode) => ({ event, mode })),
  )
}
