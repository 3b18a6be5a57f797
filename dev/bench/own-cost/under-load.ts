/**
 * Single changes beside other work, and many changes one after the other, without any kernel (memory-kernel.ts): what our own code costs
 * them. There are no audits, because this kernel lists nothing.
 */
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { join } from 'node:path'
import { arrivalsFile, type Arrivals } from '../../../src/modes/bench-probe.ts'
import type { ApiServerProcess } from '../api-server-process.ts'
import {
  type Disturbance,
  disturb,
  type Fairness,
  fairnessOf,
  probedServices,
  REMOVED_NAMESPACE,
  sliceKeyOf,
  type TimedChange,
} from '../fairness.ts'
import type { MeasuredProgram } from '../measured-program.ts'
import { slope } from '../statistics.ts'
import { monotonicMs } from '../table-view.ts'
import type { LoggedWrite } from './write-log.ts'

/** The pause between two changes: they do not wait for each other. */
const BETWEEN_MS = 5
/** Time before, during and after the work. */
const BEFORE_MS = 200
const AFTER_MS = 1_500
const TIMES = 3
/** What is left of a burst: drains end after a second. */
const SETTLE_MS = 3_500

export interface LoadedProgram {
  readonly program: MeasuredProgram
  readonly api: ApiServerProcess
  readonly services: number
  /** That of KUBE_IPVS_BENCH_FILE and of KUBE_IPVS_WRITE_LOG. */
  readonly probeFile: string
  readonly writeLog: string
}

export const environmentOf = (folder: string): Pick<LoadedProgram, 'probeFile' | 'writeLog'> => ({
  probeFile: join(folder, 'readings'),
  writeLog: join(folder, 'writes'),
})

/** Changes beside nothing, a burst, and the removal of a namespace. */
export async function measureFairness(loaded: LoadedProgram): Promise<Fairness[]> {
  const all: Fairness[] = []
  for (const beside of ['nothing', 'burst', 'namespace'] as const) all.push(await measureBeside(loaded, beside))
  return all
}

interface Sent extends TimedChange {
  readonly virtualServer: number
  readonly realServer: number
}

async function measureBeside(loaded: LoadedProgram, beside: Exclude<Disturbance, 'audit'>): Promise<Fairness> {
  const { api, program, services, probeFile, writeLog } = loaded
  const probed = probedServices(services)
  const timed: TimedChange[] = []
  const arrivals: Arrivals[number][] = []
  const worksMs: number[] = []
  const loop = { eventLoopMaxMs: 0, eventLoopOwnMaxMs: 0 }
  for (let time = 0; time < TIMES; time++) {
    await program.probe()
    const sent: Sent[] = []
    let isOver = false
    const changing = (async () => {
      for (let atMs = monotonicMs(); !isOver; atMs += BETWEEN_MS) {
        const service = probed.next().value
        const { atMs: writtenMs, expected, added } = await api.change(service)
        const virtualServer = numberOf(expected[0]?.address ?? '')
        sent.push({
          key: sliceKeyOf(service),
          writtenMs,
          doneMs: undefined,
          virtualServer,
          realServer: numberOf(added),
        })
        await sleep(Math.max(0, atMs + BETWEEN_MS - monotonicMs()))
      }
    })()
    await sleep(BEFORE_MS)
    const work = beside === 'nothing' ? undefined : await disturb(api, beside)
    await sleep(AFTER_MS)
    isOver = true
    await changing
    await sleep(100)
    const reading = await program.probe()
    loop.eventLoopMaxMs = Math.max(loop.eventLoopMaxMs, reading?.eventLoopMaxMs ?? 0)
    loop.eventLoopOwnMaxMs = Math.max(loop.eventLoopOwnMaxMs, reading?.eventLoopOwnMaxMs ?? 0)
    const writes = JSON.parse(readFileSync(writeLog, 'utf8')) as LoggedWrite[] // written by memory-kernel.ts
    arrivals.push(...(JSON.parse(readFileSync(arrivalsFile(probeFile), 'utf8')) as Arrivals)) // written by bench-probe.ts
    const untilMs = work === undefined ? undefined : endOf(work, sent, writes)
    if (work !== undefined && untilMs !== undefined) worksMs.push(untilMs - work.atMs)
    const during = sent.filter(
      ({ writtenMs }) =>
        work === undefined || untilMs === undefined || (writtenMs >= work.atMs && writtenMs <= untilMs),
    )
    timed.push(...during.map((change) => ({ ...change, doneMs: doneAt(change, writes) })))
    if (beside === 'namespace') await api.restoreNamespace(REMOVED_NAMESPACE)
    await sleep(SETTLE_MS)
  }
  return fairnessOf(beside, timed, arrivals, loop, worksMs)
}

/** When the last write was made that is not a probe's. */
function endOf(
  work: { readonly atMs: number },
  sent: readonly Sent[],
  writes: readonly LoggedWrite[],
): number | undefined {
  const probes = new Set(sent.map(({ virtualServer }) => virtualServer))
  return writes.findLast(({ virtualServer, atMs }) => atMs >= work.atMs && !probes.has(virtualServer))?.atMs
}

const doneAt = (change: Sent, writes: readonly LoggedWrite[]): number | undefined =>
  writes.find(
    ({ virtualServer, realServer, atMs }) =>
      virtualServer === change.virtualServer && realServer === change.realServer && atMs >= change.writtenMs,
  )?.atMs

/** `10.96.0.1` or `10.96.0.1:80`. */
function numberOf(address: string): number {
  return address
    .split(':', 1)
    .join('')
    .split('.')
    .reduce((sum, part) => sum * 256 + Number(part), 0)
}

/** Points of RSS over changes, and the growth from `from` to the last change, in MiB. */
export interface Growth {
  readonly changes: number
  readonly from: number
  readonly points: readonly (readonly [changes: number, rssMiB: number])[]
  readonly growthMiB: number | null
}

/** Changes as fast as they are written, in batches that are awaited. */
export async function measureGrowth(
  { api, program }: LoadedProgram,
  changes: number,
  say: (text: string) => void,
): Promise<Growth> {
  const from = Math.floor(changes / 5)
  const points: [number, number][] = []
  for (let index = 1; index <= changes; index++) {
    await api.change()
    if (index % 100 === 0) await sleep(1)
    if (index >= from && index % Math.max(1, Math.floor(changes / 200)) === 0)
      points.push([index, program.memory().rssMiB])
    if (index % Math.max(1, Math.floor(changes / 10)) === 0)
      say(`${index} changes, ${program.memory().rssMiB.toFixed(1)} MiB`)
  }
  const perChange = slope(points)
  return { changes, from, points, growthMiB: perChange === null ? null : perChange * (changes - from) }
}

/** Removes what an earlier program wrote. */
export function clear({ probeFile, writeLog }: Pick<LoadedProgram, 'probeFile' | 'writeLog'>): void {
  for (const file of [probeFile, arrivalsFile(probeFile), writeLog]) if (existsSync(file)) rmSync(file)
}
