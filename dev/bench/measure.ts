/**
 * One measurement of one size: cold start, single changes, a burst, idle, then the event loop, in this order.
 * What could break: each phase starts from a settled table; drains of the phase before are waited for.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ProbeReading } from '../../src/daemon/bench-probe.ts'
import type { ApiServer } from './api-server.ts'
import { monotonicMs } from './clock.ts'
import type { KernelView } from './kernel-view.ts'
import { type MeasuredProgram, processesStarted } from './measured-program.ts'
import type { BenchOptions } from './options.ts'
import type { BenchResult } from './result.ts'
import { percentile, slope } from './statistics.ts'

export interface MeasureOptions extends Pick<BenchOptions, 'endpoints' | 'changes' | 'idleSeconds' | 'slope'> {
  readonly services: number
  readonly api: ApiServer
  readonly kernel: KernelView
  readonly start: () => MeasuredProgram
  readonly say: (text: string) => void
}

/** As long as the table may take to be complete. */
const COLD_START_MS = 600_000
const CHANGE_MS = 60_000
const BURST_MS = 120_000
/** As long as all single changes may take together, for slow programs. */
const CHANGES_MS = 60_000
/** Until drains are over and everything rests. */
const SETTLE_MS = 4_000
const BETWEEN_CHANGES_MS = 20
const BURST_PERCENT = 10
/** Changes while the event loop is watched, and the rest after them, in which an audit starts (syncPeriod is 30 s). */
const WATCHED_CHANGES = 50
const WATCHED_REST_MS = 35_000
const SLOPE_CHANGES = 10_000
const SLOPE_FROM = 2_000

export type Measured = Omit<BenchResult, 'floorMs' | 'floorRatio'>

/** The program is started here and still runs afterwards. */
export async function measure(
  options: MeasureOptions,
): Promise<{ readonly program: MeasuredProgram; readonly result: Measured }> {
  const { services, endpoints, api, kernel, say } = options
  const expected = api.expected()
  const before = processesStarted()
  const program = options.start()
  try {
    const complete = await kernel.whenComplete(expected, program.startedMs + COLD_START_MS, () => program.isAlive)
    if (!program.isAlive) throw new Error(`the program ended:\n${program.logTail}`)
    if (complete === undefined) throw new Error(`no complete table in ${COLD_START_MS / 1000} s`)
    const coldStartMs = complete - program.startedMs
    say(`cold start ${coldStartMs.toFixed(0)} ms, peak ${program.memory().peakRssMiB.toFixed(0)} MiB`)
    const coldStartProcesses = processesStarted() - before
    await sleep(SETTLE_MS)
    const [changes, cold] = await changePhase(options, program)
    const [burstMs, burst] = await burstPhase(options, program)
    const idle = await idlePhase(options, program)
    const memory = program.memory()
    const eventLoopMaxMs = await watchedPhase(options, program)
    const rssSlopeMiB = options.slope ? await slopePhase(options, program) : null
    const result: Measured = {
      services,
      endpoints,
      coldStartMs,
      changeP50Ms: percentile(changes.timesMs, 0.5),
      changeP99Ms: percentile(changes.timesMs, 0.99),
      burstMs,
      idleCpuPercent: idle.cpuPercent,
      ...memory,
      messagesPerChange: per(changes.cost.messages, changes.timesMs.length),
      processesPerChange: per(changes.cost.processes, changes.timesMs.length),
      eventLoopMaxMs,
      datagramsPerChange: per(changes.cost.datagrams, changes.timesMs.length),
      coldStartMessages: cold?.messages ?? null,
      coldStartDatagrams: cold?.datagrams ?? null,
      coldStartProcesses,
      burstMessages: burst.messages,
      burstDatagrams: burst.datagrams,
      burstProcesses: burst.processes,
      idleMessages: idle.cost.auditMessages,
      idleProcesses: idle.cost.processes,
      rssSlopeMiB,
      changes: changes.timesMs.length,
    }
    return { program, result }
  } catch (error) {
    await program.stop()
    throw error
  }
}

/** What a phase cost; null where the program does not tell. */
interface Cost {
  readonly messages: number | null
  readonly datagrams: number | null
  readonly auditMessages: number | null
  readonly processes: number
}

const per = (amount: number | null, changes: number): number | null =>
  amount === null || changes === 0 ? null : amount / changes

/** Runs `work`, waits until its drains are over, and tells what both together cost. */
async function costing<T>(
  program: MeasuredProgram,
  work: () => Promise<T>,
): Promise<[T, Cost, ProbeReading | undefined]> {
  const before = await readCounters(program)
  const processes = processesStarted()
  const result = await work()
  await sleep(SETTLE_MS)
  const started = processesStarted() - processes
  const after = await readCounters(program)
  if (before === undefined || after === undefined)
    return [result, { messages: null, datagrams: null, auditMessages: null, processes: started }, before]
  return [
    result,
    {
      messages: after.messages - before.messages,
      datagrams: after.datagrams - before.datagrams,
      auditMessages: after.auditMessages - before.auditMessages,
      processes: started,
    },
    before,
  ]
}

/** Two signals: the first starts to watch the event loop, the second stops that again. */
async function readCounters(program: MeasuredProgram): Promise<ProbeReading | undefined> {
  await program.probe()
  return program.probe()
}

async function changePhase(
  { api, kernel, changes, say }: MeasureOptions,
  program: MeasuredProgram,
): Promise<[{ readonly timesMs: readonly number[]; readonly cost: Cost }, ProbeReading | undefined]> {
  const timesMs: number[] = []
  const [, cost, cold] = await costing(program, async () => {
    const endMs = monotonicMs() + CHANGES_MS
    for (let index = 0; index < changes && monotonicMs() < endMs; index++) {
      const change = await api.change()
      const doneMs = await kernel.whenAdded(change, change.atMs + CHANGE_MS)
      if (doneMs === undefined) throw new Error(`a change did not reach the kernel in ${CHANGE_MS / 1000} s`)
      timesMs.push(doneMs - change.atMs)
      await sleep(BETWEEN_CHANGES_MS)
    }
  })
  say(
    `${timesMs.length} changes, p50 ${percentile(timesMs, 0.5)?.toFixed(2)} ms, p99 ${percentile(timesMs, 0.99)?.toFixed(2)} ms`,
  )
  return [{ timesMs, cost }, cold]
}

async function burstPhase(
  { api, kernel, say }: MeasureOptions,
  program: MeasuredProgram,
): Promise<[number | null, Cost]> {
  const [burstMs, cost] = await costing(program, async () => {
    const { atMs, expected } = await api.burst(BURST_PERCENT)
    const doneMs = await kernel.whenComplete(expected, atMs + BURST_MS, () => program.isAlive)
    return doneMs === undefined ? null : doneMs - atMs
  })
  say(`burst ${burstMs?.toFixed(0) ?? 'not complete in time'} ms`)
  return [burstMs, cost]
}

async function idlePhase(
  { idleSeconds, say }: MeasureOptions,
  program: MeasuredProgram,
): Promise<{ readonly cpuPercent: number; readonly cost: Cost }> {
  await sleep(SETTLE_MS)
  const [cpuPercent, cost] = await costing(program, async () => {
    const cpuMs = program.cpuMs()
    const startedMs = monotonicMs()
    await sleep(idleSeconds * 1000)
    return ((program.cpuMs() - cpuMs) / (monotonicMs() - startedMs)) * 100
  })
  say(`idle ${cpuPercent.toFixed(2)} % of a core, ${program.memory().rssMiB.toFixed(0)} MiB`)
  return { cpuPercent, cost }
}

/** Changes, a burst and an audit again, this time with an eye on the event loop. */
async function watchedPhase({ api, kernel, say }: MeasureOptions, program: MeasuredProgram): Promise<number | null> {
  if ((await program.probe()) === undefined) return null
  for (let index = 0; index < WATCHED_CHANGES; index++) {
    await api.change()
    await sleep(BETWEEN_CHANGES_MS)
  }
  const { atMs, expected } = await api.burst(BURST_PERCENT)
  await kernel.whenComplete(expected, atMs + BURST_MS, () => program.isAlive)
  await sleep(WATCHED_REST_MS)
  const maxMs = (await program.probe())?.eventLoopMaxMs ?? null
  say(`event loop held for at most ${maxMs?.toFixed(1)} ms`)
  return maxMs
}

async function slopePhase({ api, kernel, say }: MeasureOptions, program: MeasuredProgram): Promise<number | null> {
  const points: [number, number][] = []
  for (let index = 1; index <= SLOPE_CHANGES; index++) {
    const change = await api.change()
    if (index % 50 === 0) await kernel.whenAdded(change, monotonicMs() + CHANGE_MS)
    if (index >= SLOPE_FROM && index % 100 === 0) points.push([index, program.memory().rssMiB])
    if (index % 1000 === 0) say(`${index} changes, ${program.memory().rssMiB.toFixed(1)} MiB`)
  }
  const perChange = slope(points)
  return perChange === null ? null : perChange * (SLOPE_CHANGES - SLOPE_FROM)
}
