/**
 * The phase of `--burst-with-probe`, in a guest and without a kernel: single changes at a steady pace beside nothing, a burst, the removal of
 * a namespace and an audit. A change begins when it arrives in the program, and ends when the kernel has run the message that adds its
 * endpoint: the first is told by the program's probe, the second by the log of writes. Nobody reads the kernel meanwhile, because on one
 * processor that delays the program, and a reader notices a change a millisecond later.
 */
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Arrivals, arrivalsFile } from '../../src/modes/bench-probe.ts'
import {
  type Disturbance,
  disturb,
  type Fairness,
  fairnessOf,
  probedServices,
  REMOVED_NAMESPACE,
  sliceKeyOf,
  type TimedChange,
} from './fairness.ts'
import type { ApiServerProcess, Change, Written } from './api-server-process.ts'
import type { MeasuredProgram } from './measured-program.ts'
import { monotonicMs } from './table-view.ts'
import type { LoggedWrite } from './writes/write-log.ts'

export interface FairnessOptions {
  readonly services: number
  readonly api: ApiServerProcess
  readonly disturbances: readonly Disturbance[]
  /** How often each work is done. */
  readonly times: Readonly<Record<Work['what'], number>>
  /** After the changes, while the event loop is still watched: until drains have ended, and a collection at rest. */
  readonly settleMs: number
  /** Changes beside a burst end so long after it began: then all of it must be in the kernel. */
  readonly burstMs: number
  /** Rejects if the kernel has not all that was written according to the log; absent: there is no kernel. */
  readonly confirm?: (seen: { readonly changes: readonly Change[]; readonly work: Work | undefined }) => Promise<void>
  readonly say: (text: string) => void
}

/** Changes before the work, so that the program has lately used its code and its data. The program rests after them while the API server encodes a burst. */
const BEFORE_MS = 200
/** Without work, and beside audits: they begin 30 s after each other (syncPeriod), so one of each kind begins in this time. */
const QUIET_MS = 5_000
const AUDIT_MS = 32_000
/** The same as `burstMs` for the removal of a namespace, which takes less than a tenth of this. */
const NAMESPACE_MS = 1_000
/**
 * From the beginning of one change to that of the next, as far as the API server takes them in time: they do not wait for the program. Each
 * leaves a deleted real server, and the kernel walks over all of them for each new one, so changes are quick only beside work that is short.
 */
const PACE_MS: Readonly<Record<Disturbance, number>> = { nothing: 25, audit: 100, namespace: 6, burst: 12 }

interface Sent extends TimedChange {
  readonly change: Change
}

/** A burst or the removal of a namespace. */
export interface Work extends Written {
  readonly what: 'burst' | 'namespace'
}

/** Rejects when the program has no probe or keeps no log, and when a change does not reach the kernel. */
export async function measureFairness(options: FairnessOptions, program: MeasuredProgram): Promise<Fairness[]> {
  const all: Fairness[] = []
  for (const disturbance of options.disturbances)
    for (const fairness of await measureBeside(options, program, disturbance)) {
      const { beside, changes, arrivalP50Ms, arrivalP99Ms, eventLoopOwnMaxMs } = fairness
      options.say(
        `${changes} changes beside ${beside}: p50 ${arrivalP50Ms?.toFixed(2)} ms, p99 ${arrivalP99Ms?.toFixed(1)} ms from their arrival, event loop held for ${eventLoopOwnMaxMs?.toFixed(1)} ms`,
      )
      all.push(fairness)
    }
  return all
}

async function measureBeside(
  options: FairnessOptions,
  program: MeasuredProgram,
  beside: Disturbance,
): Promise<Fairness[]> {
  const { api } = options
  const probed = probedServices(options.services)
  const timed: TimedChange[] = []
  const timedBesideDrains: TimedChange[] = []
  const arrivals: Arrivals[number][] = []
  const worksMs: number[] = []
  const drainsMs: number[] = []
  const loop = { eventLoopMaxMs: 0, eventLoopOwnMaxMs: 0 }
  const times = beside === 'burst' || beside === 'namespace' ? options.times[beside] : 1
  for (let time = 0; time < times; time++) {
    if ((await program.probe()) === undefined)
      throw new Error('the program has no probe, which --burst-with-probe needs')
    const { sent, work } = await changesBeside(options, probed, beside)
    await sleep(options.settleMs)
    const reading = await program.probe()
    loop.eventLoopMaxMs = Math.max(loop.eventLoopMaxMs, reading?.eventLoopMaxMs ?? 0)
    loop.eventLoopOwnMaxMs = Math.max(loop.eventLoopOwnMaxMs, reading?.eventLoopOwnMaxMs ?? 0)
    const writes = JSON.parse(readFileSync(program.writeLog, 'utf8')) as LoggedWrite[] // written by writes/write-log.ts
    arrivals.push(...(JSON.parse(readFileSync(arrivalsFile(program.probeFile), 'utf8')) as Arrivals)) // written by bench-probe.ts
    const fromMs = work?.atMs ?? 0
    const untilMs = work === undefined ? Number.POSITIVE_INFINITY : endOf(work, sent, writes, isOfWork)
    const drainedMs = beside === 'burst' && work !== undefined ? endOf(work, sent, writes, isOfDrain) : untilMs
    if (work !== undefined) worksMs.push(untilMs - fromMs)
    if (drainedMs > untilMs) drainsMs.push(drainedMs - untilMs)
    // A later change of a Service may have replaced what an earlier one added.
    const lastChanges = new Map(sent.map(({ key, change }) => [key, change]))
    for (const one of sent) {
      const { key, writtenMs, change } = one
      if (writtenMs < fromMs || writtenMs > Math.max(untilMs, drainedMs)) continue
      const doneMs = doneAt(change, writes)
      if (doneMs === undefined && lastChanges.get(key) === change)
        throw new Error(`the change of ${key} did not reach the kernel while changes were made beside ${beside}`)
      const those = writtenMs > untilMs ? timedBesideDrains : timed
      those.push({ key, writtenMs, doneMs })
    }
    await options.confirm?.({ changes: [...lastChanges.values()], work })
    if (beside !== 'namespace') continue
    await api.restoreNamespace(REMOVED_NAMESPACE)
    await sleep(options.settleMs)
  }
  const all = [fairnessOf(beside, timed, arrivals, loop, worksMs)]
  if (timedBesideDrains.length > 0) all.push(fairnessOf('drains', timedBesideDrains, arrivals, loop, drainsMs))
  return all
}

/** Changes before and beside the work, until it is over. */
async function changesBeside(
  { api, burstMs }: FairnessOptions,
  probed: Iterator<number, never>,
  beside: Disturbance,
): Promise<{ readonly sent: readonly Sent[]; readonly work: Work | undefined }> {
  const paceMs = PACE_MS[beside]
  const sent: Sent[] = []
  let isOver = false
  const changing = (async () => {
    for (let atMs = monotonicMs(); !isOver; ) {
      const service = probed.next().value
      const change = await api.change(service)
      sent.push({ key: sliceKeyOf(service), writtenMs: change.atMs, doneMs: undefined, change })
      // A change that the API server took late is not made up for: several at once are not single changes.
      atMs = Math.max(atMs + paceMs, monotonicMs() + paceMs / 2)
      await sleep(atMs - monotonicMs())
    }
  })()
  const beginning = async (): Promise<Work | undefined> => {
    if (beside === 'nothing' || beside === 'audit') {
      await sleep(beside === 'nothing' ? QUIET_MS : AUDIT_MS)
      return undefined
    }
    await sleep(BEFORE_MS)
    const work: Work = { what: beside, ...(await disturb(api, beside)) }
    await sleep(beside === 'burst' ? burstMs : NAMESPACE_MS)
    return work
  }
  const ending = beginning().finally(() => {
    isOver = true
  })
  // The first of them that rejects ends the measurement.
  const [work] = await Promise.all([ending, changing])
  return { sent, work }
}

/** When the last such write was made that is not a change's; the beginning of the work if there is none. */
function endOf(
  { atMs: beganMs }: Written,
  sent: readonly Sent[],
  writes: readonly LoggedWrite[],
  isSuch: (write: LoggedWrite) => boolean,
): number {
  const probes = new Set(sent.map(({ change }) => virtualServerOf(change)))
  const isLast = (write: LoggedWrite): boolean =>
    write.atMs >= beganMs && isSuch(write) && !probes.has(write.virtualServer)
  return writes.findLast(isLast)?.atMs ?? beganMs
}

const isOfDrain = ({ isRemoval, realServer }: LoggedWrite): boolean => isRemoval && realServer !== 0
const isOfWork = (write: LoggedWrite): boolean => !isOfDrain(write)

function doneAt(change: Change, writes: readonly LoggedWrite[]): number | undefined {
  const [wantedServer, wantedReal] = [virtualServerOf(change), numberOf(change.added)]
  return writes.find(
    ({ virtualServer, realServer, atMs, isRemoval }) =>
      !isRemoval && virtualServer === wantedServer && realServer === wantedReal && atMs >= change.atMs,
  )?.atMs
}

const virtualServerOf = ({ expected }: Change): number => numberOf(expected[0]?.address ?? '')

/** `10.96.0.1` or `10.96.0.1:80`. */
function numberOf(address: string): number {
  return address
    .split(':', 1)
    .join('')
    .split('.')
    .reduce((sum, part) => sum * 256 + Number(part), 0)
}

/** The files of the probe and the log of a program that is started in this folder. */
export const measuredFiles = (folder: string): { readonly probeFile: string; readonly writeLog: string } => ({
  probeFile: join(folder, 'readings'),
  writeLog: join(folder, 'writes'),
})

/** Removes what an earlier program wrote into them. */
export function clear({ probeFile, writeLog }: ReturnType<typeof measuredFiles>): void {
  for (const file of [probeFile, arrivalsFile(probeFile), writeLog]) if (existsSync(file)) rmSync(file)
}
