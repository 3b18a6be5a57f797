/**
 * `--burst-with-probe`: how long single changes take beside nothing, and beside a burst that replaces every endpoint of 10 % of the Services. A change
 * begins when it arrives in the program and ends when the kernel has run the command that adds its endpoint; the program publishes both
 * (src/sync/channels.ts). Nobody reads the kernel meanwhile, because on one processor that delays the program.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { namespaceOf, serviceName } from '../api-server/generate.ts'
import type { ApiServerProcess, Change, Written } from './api-server-process.ts'
import type { MeasuredProgram, Reading } from './measured-program.ts'
import { percentile, rounded } from './statistics.ts'
import { monotonicMs, type TableView } from './table-view.ts'

const KINDS = ['nothing', 'burst'] as const

/** The changes of one row, times in milliseconds. */
export interface Beside {
  readonly beside: (typeof KINDS)[number]
  readonly changes: number
  /** From the arrival in the program to the kernel; null: none arrived. */
  readonly arrivalP50Ms: number | null
  readonly arrivalP99Ms: number | null
  readonly arrivalMaxMs: number | null
  /** From the API server's write to the kernel. */
  readonly writeP50Ms: number | null
  readonly writeP99Ms: number | null
  readonly writeMaxMs: number | null
  /** Longest time between two turns of the event loop. */
  readonly eventLoopMaxMs: number | null
  /** How long the burst itself took, until the kernel had all of it. */
  readonly workMs: number | null
}

export interface Sent {
  readonly service: number
  readonly change: Change
}

export const BURST_PERCENT = 10
const BURST_STEP = Math.round(100 / BURST_PERCENT)
/**
 * From the beginning of one change to that of the next; they do not wait for the program. Each leaves a deleted real server, and the kernel walks over
 * all of them for each new one, so changes are quick only beside work that is short.
 */
const PACE_MS = { nothing: 25, burst: 12 } as const
const QUIET_MS = 5_000
/** Changes before the burst, so that the program has lately used its code and its data. */
const BEFORE_MS = 200
/** How long changes are made beside a burst: at least this, and so long for each Service. */
const SHORTEST_BURST_MS = 2_000
const BURST_A_SERVICE_MS = 1
/** After the changes, while the event loop is still watched: drains end, and garbage is collected at rest. */
const SETTLE_MS = 8_000

export interface BesideOptions {
  readonly services: number
  readonly api: ApiServerProcess
  readonly table: TableView
  readonly say: (text: string) => void
}

/** Rejects when the program publishes nothing, and when the kernel has not all that it should have at the end. */
export async function measureBesideBurst(options: BesideOptions, program: MeasuredProgram): Promise<Beside[]> {
  const probed = probedServices(options.services)
  const all: Beside[] = []
  for (const kind of KINDS) {
    await program.watch()
    const { sent, burst } = await changesBeside(options, probed, kind)
    await sleep(SETTLE_MS)
    const reading = await program.watch()
    if (reading === undefined) throw new Error('the program publishes nothing, so --burst-with-probe cannot measure it')
    await confirm(options, program, sent, burst)
    const row = besideOf(kind, sent, burst?.atMs, reading)
    const { changes, arrivalP50Ms, arrivalP99Ms } = row
    options.say(`${changes} changes beside ${kind}: p50 ${arrivalP50Ms} ms, p99 ${arrivalP99Ms} ms from their arrival`)
    all.push(row)
  }
  return all
}

/** The Services whose changes are timed, in an endless order in which neighbours are distant: none that is in a burst. */
export function* probedServices(services: number): Generator<number, never, undefined> {
  for (let turn = 0; ; ) {
    turn = (turn + 7919) % services
    if (turn % BURST_STEP !== 0) yield turn
    else if (turn + 1 < services || services === 1) yield services === 1 ? 0 : turn + 1
  }
}

/** Changes before and beside the burst, until it must be over. */
async function changesBeside(
  { api, services }: BesideOptions,
  probed: Iterator<number, never>,
  kind: Beside['beside'],
): Promise<{ readonly sent: readonly Sent[]; readonly burst: Written | undefined }> {
  const sent: Sent[] = []
  let isOver = false
  const changing = (async () => {
    for (let atMs = monotonicMs(); !isOver; ) {
      const service = probed.next().value
      sent.push({ service, change: await api.change(service) })
      // A change that the API server took late is not made up for: several at once are not single changes.
      atMs = Math.max(atMs + PACE_MS[kind], monotonicMs() + PACE_MS[kind] / 2)
      await sleep(atMs - monotonicMs())
    }
  })()
  const working = (async () => {
    await sleep(kind === 'nothing' ? QUIET_MS : BEFORE_MS)
    if (kind === 'nothing') return undefined
    const burst = await api.burst(BURST_PERCENT)
    await sleep(Math.max(SHORTEST_BURST_MS, services * BURST_A_SERVICE_MS))
    return burst
  })().finally(() => {
    isOver = true
  })
  const [burst] = await Promise.all([working, changing])
  return { sent, burst }
}

/** A later change of a Service may have replaced what an earlier one added. */
async function confirm(
  { table }: BesideOptions,
  program: MeasuredProgram,
  sent: readonly Sent[],
  burst: Written | undefined,
): Promise<void> {
  const nowMs = monotonicMs()
  for (const change of new Map(sent.map((one) => [one.service, one.change])).values())
    if ((await table.whenAdded(change, nowMs)) === undefined)
      throw new Error(`the kernel does not have ${change.added}, which the program should have written`)
  if (burst !== undefined && (await table.whenComplete(burst.expected, nowMs, () => program.isAlive)) === undefined)
    throw new Error('the burst took longer than changes were made beside it')
}

/** The figures of the changes that were written while the burst was under way; without one, of all. @param burstMs when it was written */
export function besideOf(
  beside: Beside['beside'],
  sent: readonly Sent[],
  burstMs: number | undefined,
  { eventLoopMaxMs, arrivals, writes }: Pick<Reading, 'eventLoopMaxMs' | 'arrivals' | 'writes'>,
): Beside {
  const probes = new Set(sent.map(({ change }) => change.expected[0]?.address))
  const added = writes.flatMap(([command, atMs]) => {
    const [, server = '', port, real] = /^ipvsadm -a -t ([\d.]+):(\d+) -r (\S+)/.exec(command) ?? []
    return port === undefined ? [] : [{ server, real, atMs }]
  })
  const overMs = added.findLast(({ server }) => !probes.has(server))?.atMs
  const timed = sent.filter(
    ({ change }) => burstMs === undefined || (change.atMs >= burstMs && change.atMs <= (overMs ?? burstMs)),
  )
  const times = timed.flatMap(({ service, change }) => {
    const done = added.find(
      ({ real, server, atMs }) =>
        real === change.added && server === change.expected[0]?.address && atMs >= change.atMs,
    )
    if (done === undefined) return []
    const key = `${namespaceOf(service)}/${serviceName(service)}-x7k2p`
    const arrived = arrivals.find(([of, atMs]) => of === key && atMs >= change.atMs)?.[1]
    return [{ write: done.atMs - change.atMs, arrival: arrived === undefined ? [] : [done.atMs - arrived] }]
  })
  const figures = (samples: readonly number[]): (number | null)[] =>
    [0.5, 0.99, 1].map((share) => rounded(percentile(samples, share), 2))
  const [arrivalP50Ms = null, arrivalP99Ms = null, arrivalMaxMs = null] = figures(times.flatMap((one) => one.arrival))
  const [writeP50Ms = null, writeP99Ms = null, writeMaxMs = null] = figures(times.map((one) => one.write))
  return {
    beside,
    changes: times.length,
    arrivalP50Ms,
    arrivalP99Ms,
    arrivalMaxMs,
    writeP50Ms,
    writeP99Ms,
    writeMaxMs,
    eventLoopMaxMs: rounded(eventLoopMaxMs, 1),
    workMs: burstMs === undefined || overMs === undefined ? null : rounded(overMs - burstMs, 0),
  }
}
