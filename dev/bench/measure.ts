/**
 * One measurement of one size in one boot: a cold start; in repeated boots also single changes and a burst; in a whole one
 * also idle time, the event loop and, on request, growth. Each phase starts from a settled table, after the drains of the
 * previous phase.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiServerProcess } from './api-server-process.ts'
import { BURST_PERCENT, measureBesideBurst } from './beside-burst.ts'
import type { MeasuredProgram } from './measured-program.ts'
import { METRICS_URL, metricsPage, sumOf } from './metrics-page.ts'
import type { BenchOptions } from './options.ts'
import { processesBetween, processNumber, type ProgramCost } from './program-cost.ts'
import type { AnyMode, Measured } from './result.ts'
import { percentile, slope } from './statistics.ts'
import { startCounting } from './system-calls.ts'
import { monotonicMs, type TableView } from './table-view.ts'

/**
 * The work of one boot: everything, only what is repeated in fresh boots, only a cold start, counting without timing, the
 * experiment's traffic, or one cell of the measurement over size.
 */
export type GuestWork = 'whole' | 'repeated' | 'cold' | 'counted' | 'traffic' | 'cell'

export interface MeasureOptions
  extends Pick<BenchOptions, 'endpoints' | 'changes' | 'idleSeconds' | 'slope'>,
    Partial<Pick<BenchOptions, 'slopeChanges' | 'burstWithProbe'>> {
  readonly mode: AnyMode
  readonly services: number
  readonly work: GuestWork
  readonly api: ApiServerProcess
  readonly table: TableView
  /** Whether it is our program, which has metrics of its own. */
  readonly publishes: boolean
  readonly start: (stopped: boolean) => MeasuredProgram
  readonly say: (text: string) => void
}

/** The limit until the table is complete, without and with strace. */
const COLD_START_MS = 600_000
const COUNTED_COLD_START_MS = 900_000
/** The limit of one change or burst: kube-proxy processes all Services for each. */
const CHANGE_MS = 600_000
const BURST_MS = 600_000
/** No further change is made after this long. */
const CHANGES_MS = 60_000
/** The limit until drains have ended and nothing changes. */
export const SETTLE_MS = 4_000
/**
 * The pause between two changes. In iptables and nftables mode it is longer than minSyncPeriod (1 s), so that no change waits for it:
 * otherwise the times of all programs would be that period.
 */
const BETWEEN_CHANGES_MS: Readonly<Record<AnyMode, number>> = { ipvs: 20, iptables: 1_200, nftables: 1_200 }
/**
 * The kernel keeps a deleted real server for at most twice IP_VS_DEST_TRASH_PERIOD (include/net/ip_vs.h), and walks over all of them for each new
 * one. So single changes are timed beside a burst when those of earlier phases are gone.
 */
const TRASH_MS = 240_000
/** So few real servers make no difference. */
const LITTLE_TRASH = 1_000
/** Changes while system calls are counted. */
const COUNTED_CHANGES = 50
/** Changes while the event loop is watched, and the rest after them, in which an audit starts (syncPeriod is 30 s). */
const WATCHED_CHANGES = 50
const WATCHED_REST_MS = 35_000

/** Starts the program, and ends it when something fails. */
export async function measure(
  options: MeasureOptions,
): Promise<{ readonly program: MeasuredProgram; readonly result: Measured }> {
  const { services, endpoints, api, say } = options
  const before = await readOutside(api)
  const program = options.start(false)
  try {
    const completeMs = await tableComplete(options, program, program.startedMs + COLD_START_MS)
    const after = { own: program.cost(), ...(await readOutside(api)) }
    const coldStartMs = completeMs - program.startedMs
    say(
      `cold start ${coldStartMs.toFixed(0)} ms, ${after.own.cpuMs} ms of processor time, peak ${program.memory().peakRssMiB.toFixed(0)} MiB`,
    )
    const cold: Measured = {
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
    if (options.work === 'cold') return { program, result: cold }
    await sleep(SETTLE_MS)
    const changes = await changePhase(options, program)
    const burst = await burstPhase(options, program)
    const rest = options.work === 'whole' ? await restPhases(options, program) : {}
    return { program, result: { ...cold, ...changes, ...burst, ...rest } }
  } catch (error) {
    await program.stop()
    throw error
  }
}

/** System calls and netlink messages of a cold start and of single changes, without timing. strace writes to `file`. */
export async function countSystemCalls(
  options: MeasureOptions,
  file: string,
): Promise<{ readonly program: MeasuredProgram; readonly result: Measured }> {
  const { api, table, say } = options
  const program = options.start(true)
  try {
    const stopCold = await startCounting(program.pid, file)
    program.go()
    await tableComplete(options, program, program.startedMs + COUNTED_COLD_START_MS)
    const coldStartSystemCalls = await stopCold()
    await sleep(SETTLE_MS)
    const before = await sentBy(options)
    const stopChanges = await startCounting(program.pid, file)
    const most = Math.min(options.changes, COUNTED_CHANGES)
    let changes = 0
    for (const endMs = monotonicMs() + CHANGES_MS; changes < most && monotonicMs() < endMs; changes++)
      if ((await table.whenAdded(await api.change(), monotonicMs() + CHANGE_MS)) === undefined) break
    await sleep(SETTLE_MS)
    const changeCalls = await stopChanges()
    const after = await sentBy(options)
    say(`${coldStartSystemCalls ?? 'no'} system calls at the start, ${changeCalls ?? 'none'} for ${changes} changes`)
    return {
      program,
      result: {
        coldStartSystemCalls,
        systemCallsPerChange: per(changeCalls, changes),
        coldStartMessages: before?.messages ?? null,
        coldStartDatagrams: before?.datagrams ?? null,
        messagesPerChange: before && after ? per(after.messages - before.messages, changes) : null,
        datagramsPerChange: before && after ? per(after.datagrams - before.datagrams, changes) : null,
      },
    }
  } catch (error) {
    await program.stop()
    throw error
  }
}

/** Messages and datagrams that the program has sent to change the kernel, those of audits not counted; undefined where it does not say. */
async function sentBy({ mode, publishes }: MeasureOptions) {
  // In iptables mode programs of iptables write, and what they send is not counted.
  if (!publishes || mode !== 'ipvs') return undefined
  const page = await metricsPage(METRICS_URL)
  const changing = /^connection="(?!\w+-audit")[^,]*(?:,direction="out")?$/
  return {
    messages: sumOf(page, 'kubeipvs_netlink_messages_total', changing),
    datagrams: sumOf(page, 'kubeipvs_netlink_datagrams_total', changing),
  }
}

/** Resolves to the time at which the table was complete; rejects when the program ended or took too long. */
export async function tableComplete(
  { api, table }: MeasureOptions,
  program: MeasuredProgram,
  deadlineMs: number,
): Promise<number> {
  const complete = await table.whenComplete(api.expected(), deadlineMs, () => program.isAlive)
  if (!program.isAlive) throw new Error(`the program ended:\n${program.logTail}`)
  if (complete === undefined)
    throw new Error(
      `no complete table after ${((deadlineMs - program.startedMs) / 1000).toFixed(0)} s:\n${program.logTail}`,
    )
  return complete
}

/** What is read before and after a phase, from outside. */
interface Reading {
  readonly own: ProgramCost
  readonly processNumber: number
  readonly apiBytes: number
  readonly apiCpuMs: number
}

async function readOutside(api: ApiServerProcess): Promise<Pick<Reading, 'processNumber' | 'apiBytes' | 'apiCpuMs'>> {
  return { processNumber: processNumber(), apiBytes: await api.bytesSent(), apiCpuMs: api.cpuMs() }
}

async function read(program: MeasuredProgram, api: ApiServerProcess): Promise<Reading> {
  return { own: program.cost(), ...(await readOutside(api)) }
}

/** Runs `work`, waits until its drains have ended, and returns the readings before and after. */
async function reading<T>(
  { api }: MeasureOptions,
  program: MeasuredProgram,
  work: () => Promise<T>,
): Promise<[T, Reading, Reading]> {
  const before = await read(program, api)
  const result = await work()
  await sleep(SETTLE_MS)
  return [result, before, await read(program, api)]
}

const per = (amount: number | null, changes: number): number | null =>
  amount === null || changes === 0 ? null : amount / changes

/** Single changes, one after the other. */
export interface TimedChanges {
  /** From the write in the API server until the kernel has the endpoint. */
  readonly timesMs: readonly number[]
  /** A change that did not reach the kernel within this limit ended the series. */
  readonly unfinishedMs?: number
}

/**
 * Times single changes with a pause between them. @param limits no further change begins after `phaseMs`; none is waited for longer than
 * `changeMs`; the pause depends on the mode unless it is given
 */
export async function timeChanges(
  { api, table, changes, mode }: MeasureOptions,
  limits: { readonly phaseMs: number; readonly changeMs: number; readonly pauseMs?: number },
): Promise<TimedChanges> {
  const timesMs: number[] = []
  const endMs = monotonicMs() + limits.phaseMs
  for (let index = 0; index < changes && monotonicMs() < endMs; index++) {
    const change = await api.change()
    const doneMs = await table.whenAdded(change, change.atMs + limits.changeMs)
    if (doneMs === undefined) return { timesMs, unfinishedMs: limits.changeMs }
    timesMs.push(doneMs - change.atMs)
    await sleep(limits.pauseMs ?? BETWEEN_CHANGES_MS[mode])
  }
  return { timesMs }
}

/** Times single changes, and counts what they cost. */
export async function changePhase(options: MeasureOptions, program: MeasuredProgram): Promise<Measured> {
  const { say } = options
  const [{ timesMs, unfinishedMs }, before, after] = await reading(options, program, () =>
    timeChanges(options, { phaseMs: CHANGES_MS, changeMs: CHANGE_MS }),
  )
  if (unfinishedMs !== undefined) throw new Error(`a change did not reach the kernel in ${unfinishedMs / 1000} s`)
  const [changeP50Ms, changeP99Ms] = [percentile(timesMs, 0.5), percentile(timesMs, 0.99)]
  say(`${timesMs.length} changes, p50 ${changeP50Ms?.toFixed(2)} ms, p99 ${changeP99Ms?.toFixed(2)} ms`)
  const each = (amount: number | null): number | null => per(amount, timesMs.length)
  return {
    changes: timesMs.length,
    changeP50Ms,
    changeP99Ms,
    processesPerChange: each(processesBetween(before.processNumber, after.processNumber)),
    cpuMsPerChange: each(after.own.cpuMs - before.own.cpuMs),
    minorFaultsPerChange: each(after.own.minorFaults - before.own.minorFaults),
    contextSwitchesPerChange: each(after.own.contextSwitches - before.own.contextSwitches),
    apiBytesPerChange: each(after.apiBytes - before.apiBytes),
  }
}

async function burstPhase(options: MeasureOptions, program: MeasuredProgram): Promise<Measured> {
  const { api, table, say } = options
  const [burstMs, before, after] = await reading(options, program, async () => {
    const { atMs, expected } = await api.burst(BURST_PERCENT)
    const doneMs = await table.whenComplete(expected, atMs + BURST_MS, () => program.isAlive)
    return doneMs === undefined ? null : doneMs - atMs
  })
  say(`burst ${burstMs?.toFixed(0) ?? 'not complete in time'} ms`)
  return {
    burstMs,
    burstProcesses: processesBetween(before.processNumber, after.processNumber),
    burstCpuMs: after.own.cpuMs - before.own.cpuMs,
  }
}

async function restPhases(options: MeasureOptions, program: MeasuredProgram): Promise<Measured> {
  const idle = await idlePhase(options, program)
  const memory = program.memory()
  const fairness = options.burstWithProbe === true && options.mode === 'ipvs' ? await besidePhase(options, program) : {}
  const eventLoopMaxMs = await watchedPhase(options, program)
  const rssSlopeMiB = options.slope ? await slopePhase(options, program) : null
  return { ...idle, ...memory, eventLoopMaxMs, rssSlopeMiB, ...fairness }
}

async function besidePhase(options: MeasureOptions, program: MeasuredProgram): Promise<Measured> {
  const deleted = (options.services * options.endpoints * BURST_PERCENT) / 100
  if (deleted > LITTLE_TRASH) await sleep(Math.max(0, TRASH_MS - SETTLE_MS - options.idleSeconds * 1000))
  return { fairness: await measureBesideBurst(options, program) }
}

/** Waits until nothing changes, then measures the processor time of a program that has nothing to do. */
export async function idlePhase(options: MeasureOptions, program: MeasuredProgram): Promise<Measured> {
  const { idleSeconds, say } = options
  await sleep(SETTLE_MS)
  const [{ idleCpuPercent, idleWakeUpsPerSecond, byThread }, before, after] = await reading(
    options,
    program,
    async () => {
      const from = program.cost()
      const startedMs = monotonicMs()
      await sleep(idleSeconds * 1000)
      const [to, elapsedMs] = [program.cost(), monotonicMs() - startedMs]
      return {
        idleCpuPercent: ((to.cpuMs - from.cpuMs) / elapsedMs) * 100,
        idleWakeUpsPerSecond: ((to.waits - from.waits) / elapsedMs) * 1000,
        byThread: Object.entries(to.waitsByThread)
          .map(([name, waits]) => `${name} ${waits - (from.waitsByThread[name] ?? 0)}`)
          .join(', '),
      }
    },
  )
  say(
    `idle ${idleCpuPercent.toFixed(2)} % of a processor, ${idleWakeUpsPerSecond.toFixed(2)} wake-ups a second (${byThread} in ${idleSeconds} s), ${program.memory().rssMiB.toFixed(0)} MiB`,
  )
  return {
    idleCpuPercent,
    idleWakeUpsPerSecond,
    idleSeconds,
    idleProcesses: processesBetween(before.processNumber, after.processNumber),
  }
}

/** Changes, a burst and an audit again, while the event loop is watched from inside. */
async function watchedPhase(
  { api, table, say, mode }: MeasureOptions,
  program: MeasuredProgram,
): Promise<number | null> {
  if ((await program.watch()) === undefined) return null
  for (let index = 0; index < WATCHED_CHANGES; index++) {
    await api.change()
    await sleep(BETWEEN_CHANGES_MS[mode])
  }
  const { atMs, expected } = await api.burst(BURST_PERCENT)
  await table.whenComplete(expected, atMs + BURST_MS, () => program.isAlive)
  await sleep(WATCHED_REST_MS)
  const maxMs = (await program.watch())?.eventLoopMaxMs ?? null
  say(`event loop held for at most ${maxMs?.toFixed(1)} ms`)
  return maxMs
}

async function slopePhase(
  { api, table, slopeChanges = 10_000, say }: MeasureOptions,
  program: MeasuredProgram,
): Promise<number | null> {
  const from = Math.floor(slopeChanges / 5)
  const points: [number, number][] = []
  for (let index = 1; index <= slopeChanges; index++) {
    const change = await api.change()
    if (index % 50 === 0) await table.whenAdded(change, monotonicMs() + CHANGE_MS)
    if (index >= from && index % 100 === 0) points.push([index, program.memory().rssMiB])
    if (index % 1000 === 0) say(`${index} changes, ${program.memory().rssMiB.toFixed(1)} MiB`)
  }
  const perChange = slope(points)
  return perChange === null ? null : perChange * (slopeChanges - from)
}
