/**
 * One boot of the bench: a cold start, and then the phases that the task names, in its order. Each begins with a settled table, after the
 * drains of the one before. A limit that is reached is part of the result; a program that ends is a failure.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiServerProcess } from './api-server-process.ts'
import { BURST_PERCENT, measureBesideBurst } from './beside-burst.ts'
import type { MeasuredProgram } from './measured-program.ts'
import { processesBetween, processNumber, type ProgramCost } from './program-cost.ts'
import type { Figure, Measured } from './result.ts'
import { percentile, slope } from './statistics.ts'
import { countSystemCalls } from './system-calls.ts'
import { monotonicMs } from './table-view.ts'
import { type MeasureOptions, type Outcome, type Phase, SETTLE_MS, tableComplete } from './task.ts'
import { trafficPhase } from './traffic.ts'

/** The kernel keeps a deleted real server for at most so long (twice IP_VS_DEST_TRASH_PERIOD), and walks over all of them for each new one. */
const TRASH_MS = 240_000
/** So few real servers make no difference. */
const LITTLE_TRASH = 1_000
/** Changes while the event loop is watched, and the rest after them, in which an audit starts (syncPeriod is 30 s). */
const WATCHED_CHANGES = 50
const WATCHED_REST_MS = 35_000
const SLOPE_CHANGES = 10_000
/** A failure with the end of the program's log is cut to this length. */
const MAX_FAILURE = 1_000

const PHASES: Readonly<
  Record<Exclude<Phase, 'counted'>, (options: MeasureOptions, program: MeasuredProgram) => Promise<Measured>>
> = {
  traffic: trafficPhase,
  changes: changePhase,
  burst: burstPhase,
  rest: restPhase,
  beside: besidePhase,
  watched: watchedPhase,
  slope: slopePhase,
}

export async function measure(options: MeasureOptions): Promise<Outcome> {
  const isCounted = options.phases.includes('counted')
  const before = await readOutside(options.api)
  const program = options.start(isCounted)
  try {
    const measured = isCounted ? await countSystemCalls(options, program) : await phasesOf(options, program, before)
    if (!program.isAlive) throw new Error(`the program ended:\n${program.logTail}`)
    return { measured }
  } catch (error) {
    const failure = (error instanceof Error ? error.message : String(error)).slice(0, MAX_FAILURE)
    options.say(failure)
    return { failure }
  } finally {
    await program.stop()
  }
}

async function phasesOf(options: MeasureOptions, program: MeasuredProgram, before: Outside): Promise<Measured> {
  let measured = await coldStart(options, program, before)
  if (typeof measured.coldStartMs !== 'number') return measured
  for (const phase of options.phases) {
    if (phase === 'counted') continue
    await sleep(SETTLE_MS)
    measured = { ...measured, ...(await PHASES[phase](options, program)) }
  }
  return measured
}

async function coldStart(options: MeasureOptions, program: MeasuredProgram, before: Outside): Promise<Measured> {
  const { services, endpoints, api, limits, say } = options
  const completeMs = await tableComplete(options, program)
  const { peakRssMiB } = program.memory()
  if (completeMs === undefined) {
    say(`no complete table after ${limits.coldStartSeconds} s`)
    const coldStartMs = { moreThan: limits.coldStartSeconds * 1000 }
    return { services, endpoints, coldStartMs, changes: 0, peakRssMiB: { moreThan: peakRssMiB } }
  }
  const after = { own: program.cost(), ...(await readOutside(api)) }
  const coldStartMs = completeMs - program.startedMs
  say(
    `cold start ${coldStartMs.toFixed(0)} ms, ${after.own.cpuMs} ms of processor time, peak ${peakRssMiB.toFixed(0)} MiB`,
  )
  return {
    services,
    endpoints,
    coldStartMs,
    coldStartCpuMs: after.own.cpuMs,
    coldStartApiCpuMs: after.apiCpuMs - before.apiCpuMs,
    coldStartMinorFaults: after.own.minorFaults,
    coldStartMajorFaults: after.own.majorFaults,
    coldStartContextSwitches: after.own.contextSwitches,
    coldStartApiBytes: after.apiBytes - before.apiBytes,
    coldStartProcesses: processesBetween(before.processNumber, after.processNumber),
  }
}

/** What is read before and after a phase. */
interface Outside {
  readonly processNumber: number
  readonly apiBytes: number
  readonly apiCpuMs: number
}
interface Reading extends Outside {
  readonly own: ProgramCost
}

async function readOutside(api: ApiServerProcess): Promise<Outside> {
  return { processNumber: processNumber(), apiBytes: await api.bytesSent(), apiCpuMs: api.cpuMs() }
}

/** Runs `work`, waits until its drains have ended, and returns the readings before and after. */
async function reading<T>(
  { api }: MeasureOptions,
  program: MeasuredProgram,
  work: () => Promise<T>,
): Promise<[T, Reading, Reading]> {
  const read = async (): Promise<Reading> => ({ own: program.cost(), ...(await readOutside(api)) })
  const before = await read()
  const result = await work()
  await sleep(SETTLE_MS)
  return [result, before, await read()]
}

/** Single changes, one after the other. */
export interface TimedChanges {
  /** From the write in the API server until the kernel has the endpoint. */
  readonly timesMs: readonly number[]
  /** A change that did not reach the kernel within this limit ended the series. */
  readonly unfinishedMs?: number
}

async function timeChanges({ api, table, changes, limits }: MeasureOptions): Promise<TimedChanges> {
  const timesMs: number[] = []
  const limitMs = limits.changeSeconds * 1000
  const endMs = monotonicMs() + limits.changesSeconds * 1000
  for (let index = 0; index < changes && monotonicMs() < endMs; index++) {
    const change = await api.change()
    const doneMs = await table.whenAdded(change, change.atMs + limitMs)
    if (doneMs === undefined) return { timesMs, unfinishedMs: limitMs }
    timesMs.push(doneMs - change.atMs)
    await sleep(limits.betweenChangesMs)
  }
  return { timesMs }
}

/** A percentile of changes. One that did not finish is longer than all others. */
export function changeFigure({ timesMs, unfinishedMs }: TimedChanges, share: number): Figure {
  const value = percentile(unfinishedMs === undefined ? timesMs : [...timesMs, Infinity], share)
  return value === Infinity && unfinishedMs !== undefined ? { moreThan: unfinishedMs } : value
}

/** Times single changes, and counts what they cost. */
async function changePhase(options: MeasureOptions, program: MeasuredProgram): Promise<Measured> {
  const [timed, before, after] = await reading(options, program, () => timeChanges(options))
  const changes = timed.timesMs.length
  const [changeP50Ms, changeP99Ms] = [changeFigure(timed, 0.5), changeFigure(timed, 0.99)]
  options.say(`${changes} changes, p50 ${textOf(changeP50Ms)}, p99 ${textOf(changeP99Ms)}`)
  const each = (amount: number): number | null => (changes === 0 ? null : amount / changes)
  return {
    changes,
    changeP50Ms,
    changeP99Ms,
    processesPerChange: each(processesBetween(before.processNumber, after.processNumber)),
    cpuMsPerChange: each(after.own.cpuMs - before.own.cpuMs),
    minorFaultsPerChange: each(after.own.minorFaults - before.own.minorFaults),
    contextSwitchesPerChange: each(after.own.contextSwitches - before.own.contextSwitches),
    apiBytesPerChange: each(after.apiBytes - before.apiBytes),
  }
}

const textOf = (figure: Figure): string =>
  figure === null
    ? 'unknown'
    : typeof figure === 'number'
      ? `${figure.toFixed(2)} ms`
      : `more than ${figure.moreThan} ms`

/** Replaces every endpoint of some Services at once; resolves to the time until the kernel has all of them. */
async function burst({ api, table, limits }: MeasureOptions, program: MeasuredProgram): Promise<number | null> {
  const { atMs, expected } = await api.burst(BURST_PERCENT)
  const doneMs = await table.whenComplete(expected, atMs + limits.changeSeconds * 1000, () => program.isAlive)
  return doneMs === undefined ? null : doneMs - atMs
}

async function burstPhase(options: MeasureOptions, program: MeasuredProgram): Promise<Measured> {
  const [burstMs, before, after] = await reading(options, program, () => burst(options, program))
  options.say(`burst ${burstMs?.toFixed(0) ?? 'not complete in time'} ms`)
  return {
    burstMs,
    burstProcesses: processesBetween(before.processNumber, after.processNumber),
    burstCpuMs: after.own.cpuMs - before.own.cpuMs,
  }
}

/** Processor time, wake-ups and memory of a program that has nothing to do. */
async function restPhase({ limits, say }: MeasureOptions, program: MeasuredProgram): Promise<Measured> {
  const { idleSeconds } = limits
  const [from, processes, startedMs] = [program.cost(), processNumber(), monotonicMs()]
  await sleep(idleSeconds * 1000)
  const [to, elapsedMs] = [program.cost(), monotonicMs() - startedMs]
  const idleCpuPercent = ((to.cpuMs - from.cpuMs) / elapsedMs) * 100
  const idleWakeUpsPerSecond = ((to.waits - from.waits) / elapsedMs) * 1000
  const byThread = Object.entries(to.waitsByThread).map(
    ([name, waits]) => `${name} ${waits - (from.waitsByThread[name] ?? 0)}`,
  )
  const memory = program.memory()
  say(
    `idle ${idleCpuPercent.toFixed(2)} % of a processor, ${idleWakeUpsPerSecond.toFixed(2)} wake-ups a second (${byThread.join(', ')} in ${idleSeconds} s), ${memory.rssMiB.toFixed(0)} MiB`,
  )
  const idleProcesses = processesBetween(processes, processNumber())
  return { idleCpuPercent, idleWakeUpsPerSecond, idleSeconds, idleProcesses, ...memory }
}

async function besidePhase(options: MeasureOptions, program: MeasuredProgram): Promise<Measured> {
  const deleted = (options.services * options.endpoints * BURST_PERCENT) / 100
  if (deleted > LITTLE_TRASH) await sleep(Math.max(0, TRASH_MS - options.limits.idleSeconds * 1000))
  return { fairness: await measureBesideBurst(options, program) }
}

/** Changes, a burst and an audit, while the event loop is watched from inside. */
async function watchedPhase(options: MeasureOptions, program: MeasuredProgram): Promise<Measured> {
  if ((await program.watch()) === undefined) return {}
  for (let index = 0; index < WATCHED_CHANGES; index++) {
    await options.api.change()
    await sleep(options.limits.betweenChangesMs)
  }
  await burst(options, program)
  await sleep(WATCHED_REST_MS)
  const eventLoopMaxMs = (await program.watch())?.eventLoopMaxMs ?? null
  options.say(`event loop held for at most ${eventLoopMaxMs?.toFixed(1)} ms`)
  return { eventLoopMaxMs }
}

/** How memory grows over very many changes, without the first fifth of them. */
async function slopePhase({ api, table, limits, say }: MeasureOptions, program: MeasuredProgram): Promise<Measured> {
  const from = SLOPE_CHANGES / 5
  const points: [number, number][] = []
  for (let index = 1; index <= SLOPE_CHANGES; index++) {
    const change = await api.change()
    if (index % 50 === 0) await table.whenAdded(change, monotonicMs() + limits.changeSeconds * 1000)
    if (index >= from && index % 100 === 0) points.push([index, program.memory().rssMiB])
    if (index % 1000 === 0) say(`${index} changes, ${program.memory().rssMiB.toFixed(1)} MiB`)
  }
  const perChange = slope(points)
  return { rssSlopeMiB: perChange === null ? null : perChange * (SLOPE_CHANGES - from) }
}
